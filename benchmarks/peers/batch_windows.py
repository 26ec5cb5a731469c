"""Hand-written batch job: read the topic, `from_json`, group by key and a window of Spark, write Parquet."""

from pathlib import Path

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name

SCHEMA = "id bigint, k string, v bigint, at bigint"


def sessions(minutes: int) -> Column:
    """Make the session window of a row."""
    return F.session_window("at", f"{minutes} minutes")


def sliding(size: str, period: str) -> Column:
    """Make the sliding windows of a row."""
    return F.window("at", size, period)


def run(spark: SparkSession, *, bootstrap: str, topic: str, window: Column, into: Path) -> None:
    """Aggregate a topic from its beginning to its end, by window and key."""
    records = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic).load()
    rows = records.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("r")).select(
        "r.id", "r.k", "r.v", F.timestamp_millis("r.at").alias("at")
    )
    measures = (F.count("*").alias("n"), F.sum("v").alias("total"), F.max("v").alias("worst"), F.sum("id").alias("ids"))
    result = rows.groupBy(window.alias("w"), "k").agg(*measures)
    columns = ("w.start AS window_start", "w.end AS window_end", "k", "n", "total", "worst", "ids")
    result.selectExpr(*columns).write.mode("overwrite").parquet(str(into))
