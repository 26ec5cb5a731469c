"""Hand-written batch jobs over a topic of events: by Spark's windows, without duplicates, joined, and into a noop sink.

`scan` is the lower bound of a batch run: records are read once, parsed, classified and aggregated.
"""

import json
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name

from benchmarks.workloads.events import SCHEMA as EVENT_SCHEMA
from cutover.definition.model.pipeline import Pipeline
from cutover.log.kafka import LogClient
from cutover.log.options import bootstrap_servers
from cutover.pipeline_lake import PipelineLake
from cutover.records.classify import classify_records
from cutover.records.parsing.parser import parse_records
from cutover.records.partials import aggregate_partials

SCHEMA = "id bigint, k string, v bigint, at bigint"


def sessions(minutes: int) -> Column:
    """Make the session window of a row."""
    return F.session_window("at", f"{minutes} minutes")


def sliding(size: str, period: str) -> Column:
    """Make the sliding windows of a row."""
    return F.window("at", size, period)


def aggregate_windows(spark: SparkSession, *, bootstrap: str, topic: str, window: Column, into: Path) -> None:
    """Aggregate a topic from its beginning to its end, by window and key."""
    records = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic).load()
    rows = records.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("r")).select(
        "r.id", "r.k", "r.v", F.timestamp_millis("r.at").alias("at")
    )
    measures = (F.count("*").alias("n"), F.sum("v").alias("total"), F.max("v").alias("worst"), F.sum("id").alias("ids"))
    result = rows.groupBy(window.alias("w"), "k").agg(*measures)
    columns = ("w.start AS window_start", "w.end AS window_end", "k", "n", "total", "worst", "ids")
    result.selectExpr(*columns).write.mode("overwrite").parquet(str(into))


def count_distinct(spark: SparkSession, lake: PipelineLake) -> None:
    """Run the job over a whole topic of `benchmarks.workloads.events`."""
    topic = lake.pipeline.source.name
    ends = {str(p): offset for p, offset in LogClient(lake.settings).latest(topic).items()}
    records = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers(lake.settings))
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("endingOffsets", json.dumps({topic: ends}))
        .load()
    )
    parsed = records.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("r")).select("r.*")
    once = parsed.withColumn("at", F.timestamp_millis("at")).dropDuplicates(["id", "at"])
    aggregates = once.groupBy(F.window("at", "10 seconds"), "k").agg(F.count("*"), F.sum("v"), F.max("v"), F.sum("id"))
    aggregates.write.format("noop").mode("overwrite").save()


def joined(spark: SparkSession, *, bootstrap: str, left_topic: str, right_topic: str) -> DataFrame:
    """Join both topics over windows of 10 seconds, and aggregate the pairs by `window_start` and `k`.

    Returns:
        Number of pairs, sum of the right values, largest left value, and sum of the differences.
    """
    left_rows, right_rows = (_rows(spark, bootstrap, topic) for topic in (left_topic, right_topic))
    pairs = left_rows.join(right_rows.select("window_start", "k", F.col("v").alias("c_v")), ["window_start", "k"])
    return pairs.groupBy("window_start", "k").agg(
        F.count(F.lit(1)).alias("n"),
        F.sum("c_v").alias("worth"),
        F.max("v").alias("worst"),
        F.sum(F.col("c_v") - F.col("v")).alias("apart"),
    )


def _rows(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    records = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic).load()
    schema = EVENT_SCHEMA.replace("at timestamp NOT NULL", "at bigint NOT NULL")
    fields = records.select(F.from_json(F.col("value").cast("string"), schema).alias("r")).select("r.*")
    at = F.timestamp_millis("at")
    return fields.select(F.window(at, "10 seconds")["start"].alias("window_start"), "k", "v")


def scan(spark: SparkSession, *, bootstrap: str, pipeline: Pipeline) -> None:
    """Read a topic from its beginning to its end."""
    records = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", pipeline.source.name)
        .load()
    )
    rows = aggregate_partials(
        classify_records(parse_records(records, pipeline), pipeline, watermark_micros=None), pipeline
    )
    rows.write.format("noop").mode("overwrite").save()
