# expects: none
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.format("kafka").option("subscribe", "events").option("startingOffsets", "earliest").load()


def write(batch, number):
    marked = batch.write.format("delta").mode("append").option("txnAppId", "events").option("txnVersion", number)
    marked.save("/t/events")


rows.writeStream.foreachBatch(write).option("checkpointLocation", "/c/events").start()
