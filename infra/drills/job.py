"""Streaming job of drills, as a team writes one without Cutover: it deduplicates, groups by windows, and ends.

python -m cutover.infra.drills.job BOOTSTRAP TOPIC FOLDER
"""

import sys
from pathlib import Path

from pyspark.sql import functions as F  # noqa: N812 -- as Spark's documentation does

from cutover.engine import spark
from cutover.settings import Settings


def main(bootstrap: str, topic: str, folder: str) -> None:
    """Read what the topic has, and append the windows that are closed to a Delta table."""
    settings = Settings(home=Path(folder) / "home", kafka={"bootstrap_servers": bootstrap})
    session = spark.session(settings, app="drill-job")
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    value = F.from_json(F.col("value").cast("string"), "id bigint, carrier string, at bigint").alias("v")
    records = session.readStream.format("kafka").options(**options).load().select(value)
    events = records.select("v.id", "v.carrier", F.timestamp_millis("v.at").alias("at"))
    flights = events.where("id IS NOT NULL AND at IS NOT NULL AND (carrier IS NULL OR carrier <> 'TEST')")
    unique = flights.withWatermark("at", "2 seconds").dropDuplicatesWithinWatermark(["id"])
    counts = unique.groupBy(F.window("at", "10 seconds"), "carrier").agg(
        F.count("*").alias("flights"), F.sum("id").alias("ids"), F.max("id").alias("newest")
    )
    writer = counts.writeStream.format("delta").outputMode("append").trigger(availableNow=True)
    writer.option("checkpointLocation", f"{folder}/checkpoint").start(f"{folder}/table").awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
