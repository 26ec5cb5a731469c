# expects: checkpoint
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()


def start(topic):
    source = spark.readStream.format("kafka").option("subscribe", topic).option("startingOffsets", "earliest")
    rows = source.load().select("value")
    return rows.writeStream.format("delta").option("checkpointLocation", "/c/raw").start(f"/t/{topic}")


for topic in ["orders", "payments"]:
    start(topic)
spark.streams.awaitAnyTermination()
