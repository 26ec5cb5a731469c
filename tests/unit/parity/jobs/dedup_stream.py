# expects: dedup-within-watermark, watermark, chained-state
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.format("kafka").option("subscribe", "clicks").option("startingOffsets", "earliest").load()
counts = (
    rows.withWatermark("timestamp", "1 hour")
    .dropDuplicatesWithinWatermark(["key"])
    .groupBy(F.window("timestamp", "1 hour"))
    .count()
)
counts.writeStream.format("delta").option("checkpointLocation", "/c/clicks").outputMode("append").start("/t/clicks")
