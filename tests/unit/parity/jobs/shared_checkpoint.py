# expects: checkpoint, offsets, data-loss
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
source = spark.readStream.format("kafka").option("startingOffsets", "latest").option("failOnDataLoss", "false")
left_rows = source.option("subscribe", "left").load()
right = source.option("subscribe", "right").load()
left_rows.writeStream.format("delta").option("checkpointLocation", "/c/both").start("/t/left")
right.writeStream.format("delta").option("checkpointLocation", "/c/both").start("/t/right")
