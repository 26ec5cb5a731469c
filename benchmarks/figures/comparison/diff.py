"""Comparison of two equal tables of five million rows: `cutover diff`, DataComPy on Spark, and three DuckDB queries.

Ours is a complete `cutover diff` except for the start of its process: schema, digests, multisets of keys, pinned files,
stored digests. Each peer is the minimal program with the same result; DuckDB uses its defaults, all cores and memory.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
from pyspark.sql import DataFrame

from benchmarks.bench import Bench
from benchmarks.peers import datacompy_spark, duckdb_except, duckdb_join, segment_checksums
from benchmarks.results.figure import Figure, ratio
from benchmarks.rounds import measure_interleaved, time_call
from benchmarks.workloads import tables
from benchmarks.workloads.tables import KEY, MEASURES, Pair
from cutover.reconcile.external.tables import compare_tables
from cutover.reconcile.result.report import Report
from cutover.settings import Settings

ROWS = 5_000_000


def measure(bench: Bench) -> Figure:
    """Measure the seconds of each, by rounds."""
    pair = tables.make_equal_pair(bench, bench.sized(ROWS, least=tables.FILES))
    samples = measure_interleaved(
        {
            "ours": lambda _: time_fresh_diff(bench, pair, differing=0),
            "EXCEPT both ways": lambda _: time_query(pair, query_except, (0, 0)),
            "full join": lambda _: time_query(pair, query_join, (0, 0, 0)),
            "segments of MD5": lambda _: time_query(pair, query_segments, (set(), set())),
            "DataComPy": lambda _: time_datacompy(bench, pair, equal=True),
        },
        bench.rounds,
    )
    return Figure(
        name="diff",
        title="Compare two equal tables of five million rows",
        values=(
            ratio("diff_datacompy", samples["DataComPy"], samples["ours"]),
            ratio("diff_except", samples["ours"], samples["EXCEPT both ways"]),
            ratio("diff_join", samples["ours"], samples["full join"]),
            ratio("diff_segments", samples["ours"], samples["segments of MD5"]),
        ),
        sizes={"rows_a_side": pair.rows, "files_a_side": tables.FILES, "rounds": bench.rounds},
        unit="s",
        samples=samples,
        equal=("in every round all five reported that the tables agree",),
        notes=(
            "Ours starts without stored digests, reports keys that are not unique, and stores its digests at the end.",
            "DataComPy 1.1.0 runs in a warm Spark session and writes no report.",
        ),
        full=pair.rows >= ROWS,
    )


@contextmanager
def open_fresh_home(bench: Bench) -> Iterator[Settings]:
    """Yield settings with an empty home, without stored digests."""
    with TemporaryDirectory(dir=bench.settings.home, prefix="home-") as home:
        yield bench.settings.model_copy(update={"home": Path(home)})


def time_fresh_diff(bench: Bench, pair: Pair, *, differing: int) -> float:
    """Return the seconds of a comparison without stored digests.

    Raises:
        AssertionError: The number of changed rows is not `differing`.
    """
    with open_fresh_home(bench) as settings:
        return time_diff(settings, pair, differing=differing)


def time_diff(settings: Settings, pair: Pair, *, differing: int) -> float:
    """Return the seconds of a comparison.

    Raises:
        AssertionError: The number of changed rows is not `differing`.
    """
    reports: list[Report] = []
    took = time_call(lambda: reports.append(compare_tables(pair.request, settings)))
    rows = reports[0].finding.rows
    if (rows.compared, rows.changed, rows.missing, rows.extra) != (pair.rows, differing, 0, 0):
        msg = f"Diff: expected {differing} changed rows of {pair.rows}, got: {reports[0].finding.sentence}"
        raise AssertionError(msg)
    return took


def time_query(pair: Pair, query: Callable[[duckdb.DuckDBPyConnection, Pair], object], expected: object) -> float:
    """Return the seconds of a query on a new DuckDB connection, as ours uses one.

    Raises:
        AssertionError: Its result is not `expected`.
    """
    answers: list[object] = []
    with duckdb.connect() as connection:
        took = time_call(lambda: answers.append(query(connection, pair)))
    if answers != [expected]:
        msg = f"Peer: expected {expected}, got {str(answers[0])[:200]}"
        raise AssertionError(msg)
    return took


def query_except(connection: duckdb.DuckDBPyConnection, pair: Pair) -> tuple[int, int]:
    """Count the rows that only one side has."""
    return duckdb_except.count(connection, *pair.globs)


def query_join(connection: duckdb.DuckDBPyConnection, pair: Pair) -> tuple[int, int, int]:
    """Count missing, extra and changed rows."""
    return duckdb_join.count(connection, *pair.globs, key=KEY, values=MEASURES)


def query_segments(connection: duckdb.DuckDBPyConnection, pair: Pair) -> object:
    """Compare checksums of segments, and return the rows of those that differ."""
    return segment_checksums.find(connection, *pair.globs, column="window_start", columns=(*KEY, *MEASURES))


def time_datacompy(bench: Bench, pair: Pair, *, equal: bool) -> float:
    """Return the seconds of DataComPy.

    Raises:
        AssertionError: Its result is not `equal`.
    """
    answers: list[bool] = []

    def frame(side: Path) -> DataFrame:
        return bench.spark.read.parquet(str(side))

    took = time_call(
        lambda: answers.append(datacompy_spark.matches(bench.spark, frame(pair.expected), frame(pair.actual), key=KEY))
    )
    if answers != [equal]:
        msg = f"DataComPy: expected {'equal' if equal else 'different'} tables, got the opposite."
        raise AssertionError(msg)
    return took
