# expects: watermark, unbounded-state
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.appName("traffic").getOrCreate()


def read(topic):
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", "kafka:9092")
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )


def count(events, size):
    return events.groupBy(F.window("timestamp", size), "key").count()


bounded = count(read("clicks").withWatermark("timestamp", "10 minutes"), "5 minutes")
unbounded = count(read("views"), "1 hour")
for name, counts in {"clicks": bounded, "views": unbounded}.items():
    (
        counts.writeStream.format("delta")
        .outputMode("append")
        .option("checkpointLocation", f"/checkpoints/{name}")
        .toTable(f"counts_{name}")
    )
spark.streams.awaitAnyTermination()
