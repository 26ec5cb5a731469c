"""Batch jobs as teams write them: PySpark from the topic to a table, with the position up to which they have read."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import psycopg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as Spark's documentation does

from cutover.settings import Settings

Change = Callable[[DataFrame], DataFrame]

POSITIONS = "CREATE TABLE IF NOT EXISTS cutover_position (table_name text PRIMARY KEY, position jsonb NOT NULL)"
UPSERT = (
    "INSERT INTO cutover_position VALUES ('hourly', %s) ON CONFLICT (table_name) DO UPDATE SET position ="
    " excluded.position"
)


def encode_cut(topic: str, ends: Mapping[int, int]) -> str:
    """Return what `CUTOVER_CUT` holds."""
    return json.dumps({topic: {str(partition): end for partition, end in ends.items()}})


def count_hours(
    spark: SparkSession, settings: Settings, topic: str, cut: str, change: Change = lambda rows: rows
) -> DataFrame:
    """Return the rows of a nightly job: records and ids of each hour and key, up to a cut."""
    options = {
        "kafka.bootstrap.servers": str(settings.kafka.bootstrap_servers),
        "subscribe": topic,
        "endingOffsets": cut or "latest",
    }
    value = F.from_json(F.col("value").cast("string"), "id bigint, k string, at bigint").alias("v")
    records = spark.read.format("kafka").options(**options).load().select(value)
    rows = change(records.select("v.id", "v.k", F.timestamp_millis("v.at").alias("at")))
    hours = rows.where("at IS NOT NULL").groupBy(F.window("at", "1 hour"), "k")
    return hours.agg(F.count("*").alias("n"), F.sum("id").alias("ids"), F.max("id").alias("newest"))


def write_delta(rows: DataFrame, table: Path, cut: str) -> None:
    """Replace a Delta table, with the position in its commit."""
    rows.write.format("delta").mode("overwrite").option("userMetadata", cut).save(str(table))


def write_parquet(rows: DataFrame, folder: Path, cut: str) -> None:
    """Replace Parquet files, and write the position to a file next to them, last of all."""
    rows.write.mode("overwrite").parquet(str(folder))
    (folder / "_cutover_position.json").write_text(cut, encoding="utf-8")


def write_postgres(rows: DataFrame, address: str, cut: str) -> None:
    """Replace a table `public.hourly`, with the position in the same transaction."""
    with psycopg.connect(address) as connection:
        connection.execute("DROP TABLE IF EXISTS hourly")
        connection.execute(
            "CREATE TABLE hourly (hour timestamptz, k text, n bigint, total numeric, newest bigint,"
            " PRIMARY KEY (hour, k))"
        )
        flat = rows.select("window.start", "k", "n", "ids", "newest").toArrow().to_pylist()
        with connection.cursor() as cursor:
            cursor.executemany(b"INSERT INTO hourly VALUES (%s, %s, %s, %s, %s)", [tuple(row.values()) for row in flat])
        connection.execute(POSITIONS.encode())
        connection.execute(UPSERT.encode(), [cut])
