# expects: none
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.functions import udf

spark = SparkSession.builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()


@udf("string")
def domain(address):
    return address.partition("@")[2].lower()


rows = spark.read.format("delta").load("/t/users").withColumn("domain", domain("address"))
rows.groupBy("domain", F.to_date("joined_at").alias("day")).count().write.saveAsTable("joined")
