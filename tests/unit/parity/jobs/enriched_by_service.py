# expects: udf, random
import requests
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.functions import udf

spark = SparkSession.builder.getOrCreate()


@udf("string")
def country(ip):
    return requests.get(f"http://geo/{ip}").text


rows = spark.read.format("delta").load("/t/visits")
rows.withColumn("country", country("ip")).withColumn("id", F.monotonically_increasing_id()).write.saveAsTable("v")
