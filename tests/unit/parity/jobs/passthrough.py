# expects: none
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
raw = spark.readStream.format("kafka").option("subscribe", "events").option("startingOffsets", "earliest").load()
rows = raw.select(F.col("value").cast("string").alias("value"), "partition", "offset")
rows.writeStream.format("delta").option("checkpointLocation", "/c/raw").outputMode("append").start("/t/raw")
