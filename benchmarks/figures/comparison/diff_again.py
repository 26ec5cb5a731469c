"""Second `cutover diff` after 1 % of the windows have changed, compared with the first one of the same round."""

from benchmarks.bench import Bench
from benchmarks.figures.comparison import diff
from benchmarks.results.figure import Figure, ratio
from benchmarks.rounds import Samples
from benchmarks.workloads import tables
from benchmarks.workloads.tables import FILES, Pair


def measure(bench: Bench) -> Figure:
    """Measure the seconds of a first run, of one without changes, and of one with changed windows."""
    pair = tables.make_equal_pair(bench, bench.sized(diff.ROWS, least=FILES))
    rounds = [_round(bench, pair, number) for number in range(bench.rounds + 1)][1:]
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
        full=pair.rows >= diff.ROWS,
    )


def _round(bench: Bench, pair: Pair, number: int) -> dict[str, float]:
    windows = max(1, pair.rows // tables.KEYS)
    window = (7 * number + 3) % windows
    with diff.open_fresh_home(bench) as settings:
        seconds_by_run = {
            "first": diff.time_diff(settings, pair, differing=0),
            "again, nothing changed": diff.time_diff(settings, pair, differing=0),
        }
        tables.change_window(pair, window, number + 1)
        seconds_by_run["again, both sides changed"] = diff.time_diff(settings, pair, differing=0)
        tables.change_window(pair, window, number + 2, actual=False)
        seconds_by_run["again, one side changed"] = diff.time_diff(settings, pair, differing=pair.rows // FILES)
        tables.change_window(pair, window, 0)
    return seconds_by_run
