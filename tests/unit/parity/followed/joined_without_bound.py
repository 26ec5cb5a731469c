# expects: unbounded-state
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()


def read(topic):
    source = spark.readStream.format("kafka").option("subscribe", topic).option("startingOffsets", "earliest")
    return source.load().selectExpr("CAST(key AS STRING) AS id", f"CAST(value AS STRING) AS {topic}")


orders, payments = (read(topic) for topic in ("orders", "payments"))
paid = orders.join(payments, "id")
paid.writeStream.format("delta").option("checkpointLocation", "/c/paid").start("/t/paid")
