"""Two equal tables of five million rows: `cutover diff`, DataComPy on Spark, and three ways by hand in DuckDB.

Ours is all of `cutover diff` but the start of its process: schema, digests, multisets of keys, files pinned, digests
kept. Each peer is the least that gives the same answer; DuckDB has its own settings, all cores and all memory.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
from pyspark.sql import DataFrame

from benchmarks.bench import Bench
from benchmarks.made import tables
from benchmarks.made.tables import KEY, MEASURES, Pair
from benchmarks.peers import datacompy_spark, duckdb_except, duckdb_join, segment_checksums
from benchmarks.rounds import interleaved, seconds
from benchmarks.shown.figure import Figure, ratio
from cutover.reconcile.external.tables import compare_tables
from cutover.reconcile.result.report import Report
from cutover.settings import Settings

ROWS = 5_000_000


def measure(bench: Bench) -> Figure:
    """Return the seconds of each, by rounds."""
    pair = tables.equal(bench, bench.sized(ROWS, least=tables.FILES))
    samples = interleaved(
        {
            "ours": lambda _: ours(bench, pair, differing=0),
            "EXCEPT both ways": lambda _: timed(pair, by_except, (0, 0)),
            "full join": lambda _: timed(pair, by_join, (0, 0, 0)),
            "segments of MD5": lambda _: timed(pair, by_segments, (set(), set())),
            "DataComPy": lambda _: theirs(bench, pair, equal=True),
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
def fresh(bench: Bench) -> Iterator[Settings]:
    """Hand out settings of a home in which nothing is kept."""
    with TemporaryDirectory(dir=bench.settings.home, prefix="home-") as home:
        yield bench.settings.model_copy(update={"home": Path(home)})


def ours(bench: Bench, pair: Pair, *, differing: int) -> float:
    """Return the seconds of a comparison of which nothing is kept.

    Raises:
        AssertionError: It does not find so many rows.
    """
    with fresh(bench) as settings:
        return compared(settings, pair, differing=differing)


def compared(settings: Settings, pair: Pair, *, differing: int) -> float:
    """Return the seconds of a comparison.

    Raises:
        AssertionError: It does not find so many changed rows.
    """
    reports: list[Report] = []
    took = seconds(lambda: reports.append(compare_tables(pair.request, settings)))
    rows = reports[0].finding.rows
    if (rows.compared, rows.changed, rows.missing, rows.extra) != (pair.rows, differing, 0, 0):
        msg = f"Diff: expected {differing} changed rows of {pair.rows}, got: {reports[0].finding.sentence}"
        raise AssertionError(msg)
    return took


def timed(pair: Pair, work: Callable[[duckdb.DuckDBPyConnection, Pair], object], expected: object) -> float:
    """Return the seconds of a query in a new engine, as ours has one.

    Raises:
        AssertionError: It answers otherwise.
    """
    found: list[object] = []
    with duckdb.connect() as connection:
        took = seconds(lambda: found.append(work(connection, pair)))
    if found != [expected]:
        msg = f"Peer: expected {expected}, got {str(found[0])[:200]}"
        raise AssertionError(msg)
    return took


def by_except(connection: duckdb.DuckDBPyConnection, pair: Pair) -> tuple[int, int]:
    """Ask DuckDB for the rows that only one side has."""
    return duckdb_except.count(connection, *pair.globs)


def by_join(connection: duckdb.DuckDBPyConnection, pair: Pair) -> tuple[int, int, int]:
    """Ask DuckDB for missing, extra and changed rows."""
    return duckdb_join.count(connection, *pair.globs, key=KEY, values=MEASURES)


def by_segments(connection: duckdb.DuckDBPyConnection, pair: Pair) -> object:
    """Ask DuckDB for checksums of segments, and for the rows of those that differ."""
    return segment_checksums.find(connection, *pair.globs, column="window_start", columns=(*KEY, *MEASURES))


def theirs(bench: Bench, pair: Pair, *, equal: bool) -> float:
    """Return the seconds of DataComPy.

    Raises:
        AssertionError: It answers otherwise.
    """
    found: list[bool] = []

    def frame(side: Path) -> DataFrame:
        return bench.spark.read.parquet(str(side))

    took = seconds(
        lambda: found.append(datacompy_spark.matches(bench.spark, frame(pair.expected), frame(pair.actual), key=KEY))
    )
    if found != [equal]:
        msg = f"DataComPy: expected {'equal' if equal else 'different'} tables, got others."
        raise AssertionError(msg)
    return took
