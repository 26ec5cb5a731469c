"""Cost of a skewed key: time of an epoch of equally many records for different distributions of keys.

`even`: 200 uniform keys; `skewed`: nine of ten records have one key; `tenfold`: 2,000 uniform keys. Each round runs
every distribution once, from parsing to the commit of the partial aggregates; the first round is dropped, and ratios
are computed within a round. Cached frames replace the micro-batch, so that reading costs little for all of them.

    .venv/bin/python -m benchmarks.spikes.skew --records 50000 --rounds 15
"""

import argparse
import json
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import write_deltalake

from benchmarks.many_keys import page
from benchmarks.results import machine
from benchmarks.soak import workload
from cutover.engine.spark import session
from cutover.settings import Settings, SparkSettings
from cutover.streaming.microbatch import aggregate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PIPELINE = workload.pipeline("skew")
START_MILLIS = 1_700_000_000_000
PARTITIONS = 4
SPREADS = {"even": (200, 0.0), "skewed": (200, 0.9), "tenfold": (2_000, 0.0)}
GOAL = 3.0


def records(spark: "SparkSession", folder: Path, name: str, count: int) -> "DataFrame":
    """Make a cached micro-batch of two minutes of event time in four equal partitions."""
    keys, share = SPREADS[name]
    rng, file = random.Random(7), folder / f"{name}.json"  # noqa: S311 -- test data
    with file.open("w", encoding="utf-8") as json_file:
        for number in range(count):
            key = 0 if rng.random() < share else rng.randrange(keys)
            value = {"id": number, "k": f"key-{key}", "v": rng.randrange(1000)}
            json_file.write(json.dumps(value | {"at": START_MILLIS + rng.randrange(120_000)}) + "\n")
    frame = (
        spark.read.text(str(file))
        .repartition(PARTITIONS)
        .selectExpr(
            "CAST(value AS binary) AS value",
            "spark_partition_id() AS partition",
            "monotonically_increasing_id() AS offset",
            "timestamp_seconds(1700000200) AS timestamp",
        )
        .cache()
    )
    frame.count()
    return frame


def one_epoch(batch: "DataFrame", table: Path, number: int, count: int) -> int:
    """Run an epoch from parsing to its commit; return the number of partial rows."""
    offsets = dict.fromkeys(range(PARTITIONS), count // PARTITIONS)
    plan = aggregate.EpochPlan(
        epoch=number, start=dict.fromkeys(offsets, 0), end=offsets, clipped=False, watermark=None
    )
    one_pass_result = aggregate.one_pass(batch, PIPELINE, plan)
    rows = aggregate.collect_partials(one_pass_result.partials, PIPELINE)
    aggregate.newest_events(one_pass_result)
    counts = aggregate.sum_partial_rows(rows, PIPELINE, plan)
    if counts.records != count:
        msg = f"expected {count} records, the epoch counted {counts.records}"
        raise AssertionError(msg)
    write_deltalake(str(table), rows, mode="append")
    return int(rows.num_rows)


def measure(count: int, rounds: int) -> dict[str, Any]:
    """Measure the seconds of each distribution by rounds, and its ratio to `even`."""
    times: dict[str, list[float]] = {name: [] for name in SPREADS}
    partial_rows: dict[str, int] = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        spark = session(Settings(home=folder, spark=SparkSettings(master="local[2]", driver_memory="1g")), app="skew")
        frames = {name: records(spark, folder, name, count) for name in SPREADS}
        for number in range(rounds + 1):
            for name, frame in frames.items():
                began = time.perf_counter()
                partial_rows[name] = one_epoch(frame, folder / "tables" / name, number, count)
                if number:
                    times[name].append(round(time.perf_counter() - began, 4))
        spark.stop()
    return {"seconds": times, "partial_rows": partial_rows, "ratio_to_even": ratios(times)}


def ratios(times: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """Compute median, lowest and highest of the ratios within a round."""
    ratios_by_spread = {}
    for name in times.keys() - {"even"}:
        paired = [time / even for time, even in zip(times[name], times["even"], strict=True)]
        ratios_by_spread[name] = {
            "median": round(statistics.median(paired), 2),
            "lowest": round(min(paired), 2),
            "highest": round(max(paired), 2),
        }
    return ratios_by_spread


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, default=Path("docs/scale/skew.json"))
    args = parser.parse_args()
    machine_before = machine.describe()
    result = measure(args.records, args.rounds)
    parameters = {"records": args.records, "rounds": args.rounds}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(
        json.dumps({"asked": parameters, "goal": GOAL, **result, "machine": machine_before}, indent=1) + "\n"
    )
    page.write(args.out.parent)
    print(json.dumps(result["ratio_to_even"], indent=1))


if __name__ == "__main__":
    main()
