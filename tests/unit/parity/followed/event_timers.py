# expects: watermark, not-understood
from pyspark.sql import SparkSession
from pyspark.sql.streaming.state import GroupStateTimeout

spark = SparkSession.builder.getOrCreate()
source = spark.readStream.format("kafka").option("subscribe", "events").option("startingOffsets", "earliest")
events = source.load().withWatermark("timestamp", "5 minutes")


def close(key, frames, state):
    if state.hasTimedOut:
        state.remove()
    yield from frames


closed = events.groupBy("key").applyInPandasWithState(
    close, "key string", "n long", "append", GroupStateTimeout.EventTimeTimeout
)
closed.writeStream.format("delta").option("checkpointLocation", "/c/closed").start("/t/closed")
