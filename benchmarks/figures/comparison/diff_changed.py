"""Two tables of five million rows of which one in a thousand differs: `cutover diff` and the same peers."""

from benchmarks.bench import Bench
from benchmarks.figures.comparison import diff
from benchmarks.made import tables
from benchmarks.rounds import interleaved
from benchmarks.shown.figure import Figure, ratio

EVERY = 1_000


def measure(bench: Bench) -> Figure:
    """Return the seconds of each, by rounds."""
    pair = tables.changed(bench, bench.sized(diff.ROWS, least=tables.FILES), every=EVERY)
    differing = -(-pair.rows // EVERY)
    samples = interleaved(
        {
            "ours": lambda _: diff.ours(bench, pair, differing=differing),
            "EXCEPT both ways": lambda _: diff.timed(pair, diff.by_except, (differing, differing)),
            "full join": lambda _: diff.timed(pair, diff.by_join, (0, 0, differing)),
            "DataComPy": lambda _: diff.theirs(bench, pair, equal=False),
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
