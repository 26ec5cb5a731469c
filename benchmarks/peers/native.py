"""Hand-written job with Spark's windows and watermark, state in RocksDB, and a MERGE of each micro-batch into Delta.

It follows the documentation of Spark and Delta: `from_json`, `withWatermark`, `groupBy(window, key)`, update mode,
`foreachBatch` with a MERGE; RocksDB with changelog checkpoints. Malformed and late rows are dropped, and after a crash
between MERGE and checkpoint the micro-batch is merged again.
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
    """Computation of a hand-written job: its table, its key, and its windowed aggregate."""

    columns: str  # schema of the table, with `window_start` and the key
    key: str
    windows: Callable[[DataFrame], DataFrame]  # from records of a Kafka source to these columns


def start(  # noqa: PLR0913 -- the parameters of a streaming query
    spark: SparkSession, job: Job, *, bootstrap: str, topic: str, cap: int, checkpoint: Path, table: Path, name: str
) -> StreamingQuery:
    """Start a query from a topic's beginning into a Delta table, at most `cap` records per micro-batch."""
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
