"""A second `cutover diff` after one window in a hundred changed, beside the first one of the same round."""

from benchmarks.bench import Bench
from benchmarks.figures.comparison import diff
from benchmarks.made import tables
from benchmarks.made.tables import FILES, Pair
from benchmarks.rounds import Samples
from benchmarks.shown.figure import Figure, ratio


def measure(bench: Bench) -> Figure:
    """Return the seconds of a first run, of one where nothing changed, and of one where windows did."""
    pair = tables.equal(bench, bench.sized(diff.ROWS, least=FILES))
    rounds = [_round(bench, pair, number) for number in range(bench.rounds + 1)][1:]
    samples: Samples = {name: tuple(one[name] for one in rounds) for name in rounds[0]}
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
        full=pair.rows >= diff.ROWS,
    )


def _round(bench: Bench, pair: Pair, number: int) -> dict[str, float]:
    windows = max(1, pair.rows // tables.KEYS)
    window = (7 * number + 3) % windows
    with diff.fresh(bench) as settings:
        found = {
            "first": diff.compared(settings, pair, differing=0),
            "again, nothing changed": diff.compared(settings, pair, differing=0),
        }
        tables.change_window(pair, window, number + 1)
        found["again, both sides changed"] = diff.compared(settings, pair, differing=0)
        tables.change_window(pair, window, number + 2, actual=False)
        found["again, one side changed"] = diff.compared(settings, pair, differing=pair.rows // FILES)
        tables.change_window(pair, window, 0)
    return found
