# expects: none
import sys

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
source = spark.readStream.format("kafka").option("subscribe", "events").option("startingOffsets", "earliest")
rows = source.load().select("value", "partition", "offset")
writer = rows.writeStream.format("delta").option("checkpointLocation", "/c/events")
if "--once" in sys.argv:
    query = writer.trigger(availableNow=True).start("/t/events")
else:
    query = writer.trigger(processingTime="10 seconds").start("/t/events")
query.awaitTermination()
