"""Hand-written job of the Yahoo Streaming Benchmark, with the ads at its start as a broadcast join."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name

from benchmarks.peers.native import Job

SCHEMA = "ad_id string, event_type string, event_time bigint"
TABLE = "window_start timestamp, window_end timestamp, campaign_id string, views bigint"


def job(ads: DataFrame) -> Job:
    """Make the job with a dimension of ads."""
    return Job(columns=TABLE, key="campaign_id", windows=lambda records: windows(records, ads))


def windows(records: DataFrame, ads: DataFrame) -> DataFrame:
    """Aggregate views by campaign and ten seconds, with Spark's state store."""
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
