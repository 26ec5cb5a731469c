"""A team's nightly job: the same figures from the whole topic, into PostgreSQL.

python nightly_job.py BOOTSTRAP ADDRESS [CONDITION]

Two places were added for Cutover: it reads up to `CUTOVER_CUT`, and records `CUTOVER_POSITION`.
"""

import os
import sys

import psycopg
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as Spark's documentation does

SCHEMA = "event_id bigint, merchant string, amount decimal(10,2), status string, event_time timestamp"
TABLE = """
CREATE TABLE payments_hourly (
    hour timestamptz, merchant text, payments bigint, revenue numeric(20,2), PRIMARY KEY (hour, merchant)
)"""
POSITIONS = "CREATE TABLE IF NOT EXISTS cutover_position (table_name text PRIMARY KEY, position jsonb NOT NULL)"
RECORD = (
    "INSERT INTO cutover_position VALUES ('payments_hourly', %s)"
    " ON CONFLICT (table_name) DO UPDATE SET position = excluded.position"
)


def main(bootstrap: str, address: str, condition: str = "status = 'settled'") -> None:
    """Compute all hours, and replace the table in one transaction."""
    spark = SparkSession.builder.appName("payments_nightly").getOrCreate()
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", "payments")
    messages = source.option("endingOffsets", os.environ.get("CUTOVER_CUT", "latest")).load()  # added
    payments = messages.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("payment")).select("payment.*")
    hourly = (
        payments.where(condition)
        .groupBy(F.window("event_time", "1 hour"), "merchant")
        .agg(F.count("*").alias("payments"), F.sum("amount").alias("revenue"))
        .select("window.start", "merchant", "payments", "revenue")
    )
    rows = [tuple(row) for row in hourly.collect()]
    with psycopg.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS payments_hourly")
        cursor.execute(TABLE)
        cursor.executemany("INSERT INTO payments_hourly VALUES (%s, %s, %s, %s)", rows)
        if position := os.environ.get("CUTOVER_POSITION"):  # added
            cursor.execute(POSITIONS)
            cursor.execute(RECORD, [position])


if __name__ == "__main__":
    main(*sys.argv[1:])
