"""Cost of an epoch for four sinks of the same aggregate of the same records.

A cached frame replaces the micro-batch, so that reading costs little for all of them. `noop` has a noop sink, `ours`
collects the partial aggregates over Arrow and commits with delta-rs, `append` appends to Delta with Spark, `merge`
merges into Delta with Spark. Rounds are interleaved, and the first one is dropped. Source of the figures in
docs/adr/0001:

    .venv/bin/python benchmarks/spikes/epoch_cost.py --records 5000 --rounds 15
"""

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from delta.tables import DeltaTable as SparkDeltaTable
from deltalake import write_deltalake

from cutover.definition import Count, Fixed, Max, Pipeline, Sum, Topic
from cutover.engine.spark import session
from cutover.records import classify, partials
from cutover.records.parsing import parser as parse
from cutover.settings import load_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PIPELINE = Pipeline(
    name="epoch_cost",
    source=Topic(
        name="t", schema="id bigint NOT NULL, k string, v bigint, at timestamp", event_time="at", time_format="millis"
    ),
    key=("k",),
    window=Fixed(seconds=10),
    measures={"n": Count(), "total": Sum("v"), "worst": Max("v")},
)
SAME_ROW = "t.window_start <=> s.window_start AND t.k <=> s.k AND t._class <=> s._class"


def records(spark: "SparkSession", folder: Path, count: int) -> "DataFrame":
    """Make a cached micro-batch of 200 keys and two minutes of event time in four partitions."""
    rng = random.Random(7)  # noqa: S311 -- test data
    file = folder / "values.json"
    with file.open("w", encoding="utf-8") as json_file:
        for number in range(count):
            at = 1_700_000_000_000 + rng.randrange(120_000)
            json_file.write(
                json.dumps({"id": number, "k": f"key-{rng.randrange(200)}", "v": rng.randrange(1000), "at": at}) + "\n"
            )
    frame = spark.read.text(str(file)).repartition(4)
    return frame.selectExpr(
        "CAST(value AS binary) AS value",
        "spark_partition_id() AS partition",
        "monotonically_increasing_id() AS offset",
        "timestamp_seconds(1700000200) AS timestamp",
    ).cache()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spark = session(load_settings(), app="epoch-cost")
        batch = records(spark, Path(folder), args.records)
        batch.count()
        ours, appended, merged = (str(Path(folder) / name) for name in ("ours", "append", "merge"))
        endings = endings_of(spark, lambda: one_pass(batch), ours, appended, merged)
        times = measure(endings, args.rounds)
        spark.stop()
    base = statistics.median(times["noop"])
    for name, seconds in times.items():
        middle = statistics.median(seconds)
        print(f"{name:7} median {middle:.3f} s ({min(seconds):.3f} to {max(seconds):.3f}), {middle / base:.2f} x noop")


def one_pass(batch: "DataFrame") -> "DataFrame":
    """Compute the partial aggregates of one micro-batch."""
    records = classify.classify_records(parse.parse_records(batch, PIPELINE), PIPELINE, watermark_micros=None)
    return partials.aggregate_partials(records, PIPELINE)


def endings_of(
    spark: "SparkSession", frame: "Callable[[], DataFrame]", ours: str, appended: str, merged: str
) -> dict[str, Callable[[], object]]:
    """Make the functions of the four sinks, after creating the table of MERGE."""
    frame().write.format("delta").save(merged)
    target = SparkDeltaTable.forPath(spark, merged)

    def merge() -> None:
        matched = target.alias("t").merge(frame().alias("s"), SAME_ROW)
        update = {"n": "t.n + s.n", "total": "t.total + s.total", "worst": "greatest(t.worst, s.worst)"}
        matched.whenMatchedUpdate(set=update).whenNotMatchedInsertAll().execute()

    return {
        "noop": lambda: frame().write.format("noop").mode("overwrite").save(),
        "ours": lambda: write_deltalake(ours, frame().toArrow(), mode="append"),
        "append": lambda: frame().write.format("delta").mode("append").save(appended),
        "merge": merge,
    }


def measure(endings: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Measure the seconds of each sink in interleaved rounds; the first round is dropped."""
    times: dict[str, list[float]] = {name: [] for name in endings}
    for number in range(rounds + 1):
        for name, ending in endings.items():
            start = time.perf_counter()
            ending()
            if number:
                times[name].append(time.perf_counter() - start)
    return times


if __name__ == "__main__":
    main()
