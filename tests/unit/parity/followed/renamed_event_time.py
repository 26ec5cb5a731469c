# expects: watermark
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, window

spark = SparkSession.builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
source = spark.readStream.format("kafka").option("subscribe", "events").option("startingOffsets", "EARLIEST")
marked = source.load().withWatermark("timestamp", "10 minutes")
renamed = marked.withColumnRenamed("timestamp", "ts").select(col("ts").alias("event_time"), "key")
by_hour = renamed.withColumn("hour", window("event_time", "1 hour")).groupBy("hour", "key").count()
by_hour.writeStream.format("delta").option("checkpointLocation", "/c/hours").start("/t/hours")
