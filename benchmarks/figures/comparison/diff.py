"""Comparison of two tables of five million rows: `cutover diff`, DataComPy on Spark, and three DuckDB queries.

The tables are equal, differ in one row of a thousand, or are compared again after 1 % of the windows have changed. Ours
is a complete `cutover diff` except for the start of its process: schema, digests, multisets of keys, pinned files,
stored digests. Each peer is the minimal program with the same result; DuckDB uses its defaults, all cores and memory.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
from pyspark.sql import DataFrame

from benchmarks.bench import Bench
from benchmarks.peers import table_diffs
from benchmarks.results.figure import Figure, ratio
from benchmarks.rounds import Samples, measure_interleaved, time_call
from benchmarks.workloads import tables
from benchmarks.workloads.tables import FILES, KEY, MEASURES, Pair
from cutover.reconcile.external.tables import compare_tables
from cutover.reconcile.result.report import Report
from cutover.settings import Settings

ROWS = 5_000_000


def measure_diff(bench: Bench) -> Figure:
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
    return table_diffs.count_by_except(connection, *pair.globs)


def query_join(connection: duckdb.DuckDBPyConnection, pair: Pair) -> tuple[int, int, int]:
    """Count missing, extra and changed rows."""
    return table_diffs.count_by_join(connection, *pair.globs, key=KEY, values=MEASURES)


def query_segments(connection: duckdb.DuckDBPyConnection, pair: Pair) -> object:
    """Compare checksums of segments, and return the rows of those that differ."""
    return table_diffs.find_by_segments(connection, *pair.globs, column="window_start", columns=(*KEY, *MEASURES))


def time_datacompy(bench: Bench, pair: Pair, *, equal: bool) -> float:
    """Return the seconds of DataComPy.

    Raises:
        AssertionError: Its result is not `equal`.
    """
    answers: list[bool] = []

    def frame(side: Path) -> DataFrame:
        return bench.spark.read.parquet(str(side))

    took = time_call(
        lambda: answers.append(table_diffs.matches(bench.spark, frame(pair.expected), frame(pair.actual), key=KEY))
    )
    if answers != [equal]:
        msg = f"DataComPy: expected {'equal' if equal else 'different'} tables, got the opposite."
        raise AssertionError(msg)
    return took


STEP = 1_000


def measure_diff_changed(bench: Bench) -> Figure:
    """Measure the seconds of each, by rounds."""
    pair = tables.make_changed_pair(bench, bench.sized(ROWS, least=tables.FILES), step=STEP)
    differing = -(-pair.rows // STEP)
    samples = measure_interleaved(
        {
            "ours": lambda _: time_fresh_diff(bench, pair, differing=differing),
            "EXCEPT both ways": lambda _: time_query(pair, query_except, (differing, differing)),
            "full join": lambda _: time_query(pair, query_join, (0, 0, differing)),
            "DataComPy": lambda _: time_datacompy(bench, pair, equal=False),
        },
        bench.rounds,
    )
    return Figure(
        name="diff_changed",
        title="Compare two tables of which one row in a thousand differs",
        values=(
            ratio("diff_changed_datacompy", samples["DataComPy"], samples["ours"]),
            ratio("diff_changed_except", samples["ours"], samples["EXCEPT both ways"]),
            ratio("diff_changed_join", samples["ours"], samples["full join"]),
        ),
        sizes={"rows_a_side": pair.rows, "rows_that_differ": differing, "rounds": bench.rounds},
        unit="s",
        samples=samples,
        equal=(
            (
                f"{differing:,} rows differ according to ours and both queries in every round; "
                "according to DataComPy some do"
            ),
        ),
        notes=(
            "Ours also reports how far apart values are, where they are over-represented, and samples of cells.",
            "The peers count, and DataComPy answers yes or no.",
        ),
        full=pair.rows >= ROWS,
    )


def measure_diff_again(bench: Bench) -> Figure:
    """Measure the seconds of a first run, of one without changes, and of one with changed windows."""
    pair = tables.make_equal_pair(bench, bench.sized(ROWS, least=FILES))
    rounds = [_time_round(bench, pair, number) for number in range(bench.rounds + 1)][1:]
    samples: Samples = {name: tuple(seconds_by_run[name] for seconds_by_run in rounds) for name in rounds[0]}
    for name, numbers in samples.items():
        print(f"  {name:32} {numbers}", flush=True)
    return Figure(
        name="diff_again",
        title="Compare again after one window in a hundred changed",
        values=(
            ratio("diff_again", samples["again, both sides changed"], samples["first"]),
            ratio("diff_again_unchanged", samples["again, nothing changed"], samples["first"]),
            ratio("diff_again_differing", samples["again, one side changed"], samples["first"]),
        ),
        sizes={"rows_a_side": pair.rows, "files_a_side": FILES, "rounds": bench.rounds},
        unit="s",
        samples=samples,
        equal=(
            "the tables agree in the first three runs",
            f"in the last one the {pair.rows // FILES:,} rows of the changed windows differ, and nothing else",
        ),
        notes=(
            "A hundredth of the windows, in one file per side, is rewritten: first on both sides alike, then on one.",
            "Every run reads every file for the checksum of its bytes.",
        ),
        full=pair.rows >= ROWS,
    )


def _time_round(bench: Bench, pair: Pair, number: int) -> dict[str, float]:
    windows = max(1, pair.rows // tables.KEYS)
    window = (7 * number + 3) % windows
    with open_fresh_home(bench) as settings:
        seconds_by_run = {
            "first": time_diff(settings, pair, differing=0),
            "again, nothing changed": time_diff(settings, pair, differing=0),
        }
        tables.change_window(pair, window, number + 1)
        seconds_by_run["again, both sides changed"] = time_diff(settings, pair, differing=0)
        tables.change_window(pair, window, number + 2, actual=False)
        seconds_by_run["again, one side changed"] = time_diff(settings, pair, differing=pair.rows // FILES)
        tables.change_window(pair, window, 0)
    return seconds_by_run
