"""The hand-written job of the Yahoo Streaming Benchmark: a broadcast join, Spark's own windows, MERGE into Delta.

As `native_merge`: `from_json`, a filter, the ads broadcast as they are when the job starts, `withWatermark`, windows
with their state in RocksDB, update mode, each micro-batch merged. Rows that come late are dropped.
"""

from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.peers.native_merge import STATE

SCHEMA = "ad_id string, event_type string, event_time bigint"
TABLE = "window_start timestamp, window_end timestamp, campaign_id string, views bigint"


def start(  # noqa: PLR0913 -- all that such a job is told
    spark: SparkSession, *, bootstrap: str, topic: str, ads: str, cap: int, checkpoint: Path, table: Path, name: str
) -> StreamingQuery:
    """Read a topic from its beginning, at most `cap` records a micro-batch, into a Delta table."""
    for key, value in STATE.items():
        spark.conf.set(key, value)
    DeltaTable.createIfNotExists(spark).location(str(table)).addColumns(
        spark.createDataFrame([], TABLE).schema
    ).execute()

    def merge(batch: DataFrame, _: int) -> None:
        (
            DeltaTable.forPath(batch.sparkSession, str(table))
            .alias("t")
            .merge(batch.alias("s"), "t.window_start = s.window_start AND t.campaign_id = s.campaign_id")
            .whenMatchedUpdateAll()
            .whenNotMatchedInsertAll()
            .execute()
        )

    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", cap)
        .load()
    )
    return (
        windows(records, spark.read.format("delta").load(ads))
        .writeStream.queryName(name)
        .outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .foreachBatch(merge)
        .start()
    )


def windows(records: DataFrame, ads: DataFrame) -> DataFrame:
    """Return the views by campaign and ten seconds, by Spark's own state."""
    events = (
        records.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("e"))
        .where("e.event_type = 'view'")
        .select("e.ad_id", F.timestamp_millis("e.event_time").alias("at"))
    )
    return (
        events.join(F.broadcast(ads), "ad_id")
        .withWatermark("at", "1 minute")
        .groupBy(F.window("at", "10 seconds").alias("w"), "campaign_id")
        .agg(F.count(F.lit(1)).alias("views"))
        .select("w.start", "w.end", "campaign_id", "views")
        .toDF("window_start", "window_end", "campaign_id", "views")
    )
