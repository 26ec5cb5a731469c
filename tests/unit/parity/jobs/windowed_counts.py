# expects: watermark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
events = spark.readStream.format("kafka").option("subscribe", "events").option("startingOffsets", "earliest").load()
counts = events.withWatermark("timestamp", "10 minutes").groupBy(F.window("timestamp", "5 minutes"), "key").count()
counts.writeStream.outputMode("append").format("delta").option("checkpointLocation", "/c/counts").start("/t/counts")
