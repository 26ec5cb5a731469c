"""Hand-written jobs with Spark's windows and watermark, state in RocksDB, and a MERGE of each micro-batch into Delta.

They follow the documentation of Spark and Delta: `from_json`, `withWatermark`, `groupBy(window, key)`, update mode,
`foreachBatch` with a MERGE; RocksDB with changelog checkpoints. Malformed and late rows are dropped, and after a crash
between MERGE and checkpoint the micro-batch is merged again. One is over the events of most figures, one is that of the
Yahoo Streaming Benchmark, with the ads at its start as a broadcast join.

`start_noop` is the lower bound of a streaming path: the same parser, classes and aggregate on every micro-batch, with a
noop sink. It collects and commits nothing and maintains no watermark.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name
from pyspark.sql.streaming.query import StreamingQuery

from cutover.definition.model.pipeline import Pipeline
from cutover.records.classify import classify_records
from cutover.records.enrich import Dimensions
from cutover.records.parsing.parser import parse_records
from cutover.records.partials import aggregate_partials

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


def start_job(  # noqa: PLR0913 -- the parameters of a streaming query
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


EVENT_SCHEMA = "id bigint, k string, v bigint, at bigint"
EVENTS_TABLE = (
    "window_start timestamp, window_end timestamp, k string, n bigint, total bigint, worst bigint, ids bigint"
)


def aggregate_events(records: DataFrame) -> DataFrame:
    """Aggregate records by window and key, with Spark's state store."""
    events = records.select(F.from_json(F.col("value").cast("string"), EVENT_SCHEMA).alias("e")).select(
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


EVENTS_JOB = Job(columns=EVENTS_TABLE, key="k", windows=aggregate_events)


AD_SCHEMA = "ad_id string, event_type string, event_time bigint"
VIEWS_TABLE = "window_start timestamp, window_end timestamp, campaign_id string, views bigint"


def make_views_job(ads: DataFrame) -> Job:
    """Make the job with a dimension of ads."""
    return Job(columns=VIEWS_TABLE, key="campaign_id", windows=lambda records: count_views(records, ads))


def count_views(records: DataFrame, ads: DataFrame) -> DataFrame:
    """Aggregate views by campaign and ten seconds, with Spark's state store."""
    events = (
        records.select(F.from_json(F.col("value").cast("string"), AD_SCHEMA).alias("e"))
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


def start_noop(
    spark: SparkSession,
    *,
    bootstrap: str,
    pipeline: Pipeline,
    checkpoint: Path,
    name: str,
    dimensions: Dimensions,
) -> StreamingQuery:
    """Start a query that reads a topic from its beginning, at most `max_rows_per_epoch` records per micro-batch."""

    def process_batch(batch: DataFrame, _: int) -> None:
        records = parse_records(batch, pipeline, dimensions)
        rows = aggregate_partials(classify_records(records, pipeline, watermark_micros=None), pipeline)
        rows.write.format("noop").mode("overwrite").save()

    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", pipeline.source.name)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", pipeline.max_rows_per_epoch)
        .load()
    )
    return (
        records.writeStream.queryName(name)
        .option("checkpointLocation", str(checkpoint))
        .foreachBatch(process_batch)
        .start()
    )
