"""Comparison of two tables of five million rows, of which one in a thousand differs, by `cutover diff` and peers."""

from benchmarks.bench import Bench
from benchmarks.figures.comparison import diff
from benchmarks.results.figure import Figure, ratio
from benchmarks.rounds import measure_interleaved
from benchmarks.workloads import tables

STEP = 1_000


def measure(bench: Bench) -> Figure:
    """Measure the seconds of each, by rounds."""
    pair = tables.make_changed_pair(bench, bench.sized(diff.ROWS, least=tables.FILES), step=STEP)
    differing = -(-pair.rows // STEP)
    samples = measure_interleaved(
        {
            "ours": lambda _: diff.time_fresh_diff(bench, pair, differing=differing),
            "EXCEPT both ways": lambda _: diff.time_query(pair, diff.query_except, (differing, differing)),
            "full join": lambda _: diff.time_query(pair, diff.query_join, (0, 0, differing)),
            "DataComPy": lambda _: diff.time_datacompy(bench, pair, equal=False),
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
        full=pair.rows >= diff.ROWS,
    )
