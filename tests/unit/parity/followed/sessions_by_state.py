# expects: processing-time-timer, offsets
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StatefulProcessor


class Idle(StatefulProcessor):
    """Says that a user was idle for half an hour."""

    def handleInputRows(self, key, rows, timers):
        self.handle.registerTimer(timers.getCurrentProcessingTimeInMs() + 1_800_000)
        yield from rows

    def handleExpiredTimer(self, key, timers, expired):
        yield key


spark = SparkSession.builder.getOrCreate()
events = spark.readStream.format("kafka").option("subscribe", "events").load()
idle = events.groupBy("key").transformWithState(
    statefulProcessor=Idle(), outputStructType="user string", outputMode="Update", timeMode="ProcessingTime"
)
idle.writeStream.format("delta").option("checkpointLocation", "/c/idle").start("/t/idle")
