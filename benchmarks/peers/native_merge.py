"""Hand-written job over the events of most figures: all measures by key and ten seconds."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name

from benchmarks.peers.native import Job

SCHEMA = "id bigint, k string, v bigint, at bigint"
TABLE = "window_start timestamp, window_end timestamp, k string, n bigint, total bigint, worst bigint, ids bigint"


def windows(records: DataFrame) -> DataFrame:
    """Aggregate records by window and key, with Spark's state store."""
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


JOB = Job(columns=TABLE, key="k", windows=windows)
