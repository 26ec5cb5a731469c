"""Hand-written batch join: read both topics once, join by window and key, aggregate; no classes, no positions."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name for it

from benchmarks.workloads.events import SCHEMA


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
    schema = SCHEMA.replace("at timestamp NOT NULL", "at bigint NOT NULL")
    fields = records.select(F.from_json(F.col("value").cast("string"), schema).alias("r")).select("r.*")
    at = F.timestamp_millis("at")
    return fields.select(F.window(at, "10 seconds")["start"].alias("window_start"), "k", "v")
