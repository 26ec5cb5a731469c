# expects: not-idempotent
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.format("kafka").option("subscribe", "events").option("startingOffsets", "earliest").load()


def write(batch, number):
    batch.write.format("delta").mode("append").save("/t/events")


rows.writeStream.foreachBatch(write).option("checkpointLocation", "/c/events").start()
