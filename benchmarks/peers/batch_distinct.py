"""Minimal batch job that counts each record once: read, parse, dropDuplicates, aggregate, noop sink."""

import json

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name

from cutover.log.kafka import LogClient
from cutover.log.options import bootstrap_servers
from cutover.pipeline_lake import PipelineLake

SCHEMA = "id bigint, k string, v bigint, at bigint"


def run(spark: SparkSession, lake: PipelineLake) -> None:
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
