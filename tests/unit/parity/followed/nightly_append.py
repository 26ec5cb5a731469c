# expects: appended-again
from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def extract(spark):
    return spark.read.format("delta").load("/lake/orders")


def transform(orders):
    paid = orders.filter(F.col("status") == "paid")
    return paid.groupBy("country").agg(F.sum("cents").alias("cents"))


def load(result):
    result.write.format("delta").mode("append").save("/lake/by_country")


if __name__ == "__main__":
    session = SparkSession.builder.getOrCreate()
    load(transform(extract(session)))
