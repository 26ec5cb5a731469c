"""The hand-written job: Spark's own windows and watermark, state in RocksDB, each micro-batch merged into Delta.

As the Spark and Delta documentation would have it: `from_json`, `withWatermark`, `groupBy(window, key)`, update mode,
`foreachBatch` with a MERGE; RocksDB with changelog checkpoints. Rows that do not parse are dropped, rows that come
late are dropped, and a crash between MERGE and checkpoint merges again.
"""

from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name
from pyspark.sql.streaming.query import StreamingQuery

SCHEMA = "id bigint, k string, v bigint, at bigint"
TABLE = "window_start timestamp, window_end timestamp, k string, n bigint, total bigint, worst bigint, ids bigint"
STATE = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


def start(  # noqa: PLR0913 -- all that such a job is told
    spark: SparkSession, *, bootstrap: str, topic: str, cap: int, checkpoint: Path, table: Path, name: str
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
            .merge(batch.alias("s"), "t.window_start = s.window_start AND t.k = s.k")
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
        windows(records)
        .writeStream.queryName(name)
        .outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .foreachBatch(merge)
        .start()
    )


def windows(records: DataFrame) -> DataFrame:
    """Return the windowed aggregate of the topic's records, by Spark's own state."""
    events = records.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("e")).select(
        "e.id", "e.k", "e.v", F.timestamp_millis("e.at").alias("at")
    )
    return (
        events.withWatermark("at", "1 minute")
        .groupBy(F.window("at", "10 seconds").alias("w"), "k")
        .agg(
            F.count(F.lit(1)).alias("n"), F.sum("v").alias("total"), F.max("v").alias("worst"), F.sum("id").alias("ids")
        )
        .select("w.start", "w.end", "k", "n", "total", "worst", "ids")
        .toDF("window_start", "window_end", "k", "n", "total", "worst", "ids")
    )
