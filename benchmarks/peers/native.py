"""A hand-written job: Spark's own windows and watermark, state in RocksDB, each micro-batch merged into Delta.

As the Spark and Delta documentation would have it: `from_json`, `withWatermark`, `groupBy(window, key)`, update mode,
`foreachBatch` with a MERGE; RocksDB with changelog checkpoints. Rows that do not parse are dropped, rows that come
late are dropped, and a crash between MERGE and checkpoint merges again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

STATE = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is computed of a topic's records."""

    columns: str  # of the table, with types; `window_start` and the key among them
    key: str
    windows: Callable[[DataFrame], DataFrame]  # the records of a Kafka source to these columns


def start(  # noqa: PLR0913 -- all that such a job is told
    spark: SparkSession, job: Job, *, bootstrap: str, topic: str, cap: int, checkpoint: Path, table: Path, name: str
) -> StreamingQuery:
    """Read a topic from its beginning, at most `cap` records a micro-batch, into a Delta table."""
    for key, value in STATE.items():
        spark.conf.set(key, value)
    DeltaTable.createIfNotExists(spark).location(str(table)).addColumns(
        spark.createDataFrame([], job.columns).schema
    ).execute()

    def merge(batch: DataFrame, _: int) -> None:
        (
            DeltaTable.forPath(batch.sparkSession, str(table))
            .alias("t")
            .merge(batch.alias("s"), f"t.window_start = s.window_start AND t.{job.key} = s.{job.key}")
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
        job.windows(records)
        .writeStream.queryName(name)
        .outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .foreachBatch(merge)
        .start()
    )
