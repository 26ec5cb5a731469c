"""Streaming jobs as teams write them, with the native sink or a function of foreachBatch."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as Spark's documentation does

from cutover.lake.tables import delta
from cutover.settings import Settings

Write = Callable[[DataFrame, int], None]


def read_topic(
    spark: SparkSession, settings: Settings, topic: str, *, rows: int, starting: str = "earliest"
) -> DataFrame:
    """Return the records of a topic as a team reads them: `id`, `k`, `at`; at most `rows` in a micro-batch."""
    options = {
        "kafka.bootstrap.servers": str(settings.kafka.bootstrap_servers),
        "subscribe": topic,
        "startingOffsets": starting,
        "maxOffsetsPerTrigger": str(rows),
    }
    value = F.from_json(F.col("value").cast("string"), "id bigint, k string, at bigint").alias("v")
    records = spark.readStream.format("kafka").options(**options).load().select(value)
    return records.select("v.id", "v.k", F.timestamp_millis("v.at").alias("at"))


def count_windows(
    records: DataFrame, delay: str | None = "10 minutes", *, size: str = "1 hour", slide: str | None = None
) -> DataFrame:
    """Return the grouping of a team: records and ids of each window and key, with a watermark; None: it has one."""
    window = F.window("at", size, slide) if slide else F.window("at", size)
    grouped = (records if delay is None else records.withWatermark("at", delay)).groupBy(window, "k")
    return grouped.agg(F.count("*").alias("n"), F.sum("id").alias("ids"), F.max("id").alias("newest"))


def count_sessions(records: DataFrame, delay: str | None = "10 minutes", *, gap: str = "10 minutes") -> DataFrame:
    """Return the grouping of a team: records and ids of each session of a key, with a watermark; None: it has one."""
    timed = records if delay is None else records.withWatermark("at", delay)
    grouped = timed.groupBy(F.session_window("at", gap), "k")
    return grouped.agg(F.count("*").alias("n"), F.sum("id").alias("ids"), F.max("id").alias("newest"))


def clean_records(records: DataFrame) -> DataFrame:
    """Return the row of each record as a team cleans and enriches it: filtered, with columns of every kind."""
    return records.where("id IS NOT NULL AND at IS NOT NULL AND id <> 7").selectExpr(
        "id",
        "at",
        "coalesce(k, 'none') AS shop",
        "id % 3 = 0 AS is_gift",
        "CAST(id AS double) / 7 AS score",
        "CAST(id * 1.25BD AS decimal(20,2)) AS amount",
        "CAST(at AS date) AS day",
    )


def deduplicate(records: DataFrame, delay: str | None = "10 minutes", *, within: bool = False) -> DataFrame:
    """Return the records without those that were sent twice, with a watermark; None: ids are never forgotten."""
    if delay is None:
        return records.dropDuplicates(["id"])
    timed = records.withWatermark("at", delay)
    return timed.dropDuplicatesWithinWatermark(["id"]) if within else timed.dropDuplicates(["id", "at"])


def join_topics(
    left: DataFrame,
    right: DataFrame,
    delays: tuple[str, str] = ("10 minutes", "5 minutes"),
    between: tuple[str, str] = ("0 minutes", "30 minutes"),
) -> DataFrame:
    """Return the pairs of a team: rows of two topics with one key whose times are not too far apart."""
    shown = left.withWatermark("at", delays[0])
    clicked = right.selectExpr("id AS click_id", "k AS click_k", "at AS clicked_at")
    lower, upper = between
    in_range = f"clicked_at BETWEEN at + INTERVAL {lower} AND at + INTERVAL {upper}"
    pairs = shown.join(clicked.withWatermark("clicked_at", delays[1]), F.expr(f"k = click_k AND {in_range}"))
    return pairs.selectExpr(
        "id",
        "click_id",
        "k AS shop",
        "at",
        "clicked_at",
        "click_id - id AS distance",
        "CAST(id * 1.25BD AS decimal(20,2)) AS amount",
        "click_id % 3 = 0 AS is_gift",
    )


def run_job(query: DataFrame, place: Path, mode: str, write: Write | None = None) -> list[Mapping[str, Any]]:
    """Run a query over what the topic holds, with its table and its checkpoint in a folder; return its progress."""
    writer = query.writeStream.outputMode(mode).option("checkpointLocation", f"{place}/checkpoint")
    writer = writer.trigger(availableNow=True)
    running = writer.format("delta").start(f"{place}/table") if write is None else writer.foreachBatch(write).start()
    running.awaitTermination()
    return [json.loads(progress.json) for progress in running.recentProgress]


def append_to(table: str, *, numbered: bool = False) -> Write:
    """Return a function of foreachBatch that appends what it gets to a Delta table, perhaps with the batch's number."""

    def write(rows: DataFrame, batch: int) -> None:
        columns = {"batch": F.lit(batch)} if numbered else {}
        rows.withColumns(columns).write.format("delta").mode("append").save(table)

    return write


WINDOW_AND_KEY = "t.window = s.window AND t.k <=> s.k"
PAIR = "t.id = s.id AND t.click_id = s.click_id"
SESSION_AND_KEY = "t.session_window.start = s.session_window.start AND t.k <=> s.k"


def merge_into(table: str, *, marks: bool = False, on: str = WINDOW_AND_KEY) -> Write:
    """Return a function of foreachBatch that merges rows into a Delta table, by window and key or another condition."""

    def write(rows: DataFrame, batch: int) -> None:
        session = rows.sparkSession
        if not delta.exists(table):
            rows.limit(0).write.format("delta").save(table)
        marked = {"txnAppId": "payments-job", "txnVersion": str(batch)} if marks else {}
        for name, value in marked.items():
            session.conf.set(f"spark.databricks.delta.write.{name}", value)
        rows.createOrReplaceTempView("changes")
        session.sql(
            f"MERGE INTO delta.`{table}` t USING changes s ON {on}"
            " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        for name in marked:
            session.conf.unset(f"spark.databricks.delta.write.{name}")

    return write


def merge_records(table: str) -> Write:
    """Return a function of foreachBatch that merges records into a Delta table by their id."""
    merge = merge_into(table, on="t.id = s.id")
    return lambda rows, batch: merge(rows.dropDuplicates(["id"]), batch)
