"""Comparison of two result tables in DuckDB, in this process, and in Spark, in a JVM.

Two equal Parquet tables of ROWS rows (window, key, three measures); per-window digests of both and a count of windows
that differ, in each engine; rounds interleaved, medians printed. Source of the figures in docs/adr/0004:

    .venv/bin/python benchmarks/spikes/reconcile_engine.py --rows 1000000 --rounds 5
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

from cutover.engine.spark import session
from cutover.settings import load_settings

DUCKDB = """
    SELECT count(*) FROM (
        SELECT window_start, count(*) AS n, bit_xor(hash(key, n, total, worst)) AS x FROM '{0}' GROUP BY 1
    ) a FULL JOIN (
        SELECT window_start, count(*) AS n, bit_xor(hash(key, n, total, worst)) AS x FROM '{1}' GROUP BY 1
    ) b USING (window_start) WHERE a.n IS DISTINCT FROM b.n OR a.x IS DISTINCT FROM b.x
"""
SPARK = """
    SELECT count(*) FROM (
        SELECT window_start, count(*) AS n, bit_xor(xxhash64(key, n, total, worst)) AS x FROM expected GROUP BY 1
    ) a FULL JOIN (
        SELECT window_start, count(*) AS n, bit_xor(xxhash64(key, n, total, worst)) AS x FROM actual GROUP BY 1
    ) b USING (window_start) WHERE NOT (a.n <=> b.n AND a.x <=> b.x)
"""


def make(folder: Path, rows: int) -> tuple[Path, Path]:
    """Write two equal tables with 10,000 keys per window."""
    files = folder / "expected.parquet", folder / "actual.parquet"
    for file in files:
        duckdb.execute(f"""
            COPY (SELECT make_timestamp((i // 10000) * 3600000000) AS window_start, 'key-' || (i % 10000) AS key,
                         (i % 7)::BIGINT AS n, (i * 31)::DECIMAL(38,0) AS total, (i % 1301)::BIGINT AS worst
                  FROM range({rows}) r(i)) TO '{file}' (FORMAT parquet)
        """)
    return files


def time_call(work: Callable[[], object]) -> float:
    """Return the seconds that one call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        expected, actual = make(Path(folder), args.rows)
        start = time.perf_counter()
        spark = session(load_settings(), app="reconcile-engine")
        started = time.perf_counter() - start
        spark.read.parquet(str(expected)).createOrReplaceTempView("expected")
        spark.read.parquet(str(actual)).createOrReplaceTempView("actual")
        results = {"duckdb": [0.0] * 0, "spark": [0.0] * 0}
        for _ in range(args.rounds + 1):
            results["duckdb"].append(time_call(lambda: duckdb.execute(DUCKDB.format(expected, actual)).fetchall()))
            results["spark"].append(time_call(lambda: spark.sql(SPARK).collect()))
        spark.stop()
    print(f"rows {args.rows:,} a side; Spark's session takes {started:.1f} s to start")
    for engine, times in results.items():
        measured = times[1:]
        print(f"{engine:7} median {statistics.median(measured):.2f} s, {min(measured):.2f} to {max(measured):.2f}")


if __name__ == "__main__":
    main()
