"""`cutover diff` of ten times the rows: its time; of twenty times the rows: the most memory of its process."""

import subprocess
import sys
import time
from collections.abc import Callable

import psutil

from benchmarks.bench import Bench
from benchmarks.figures.comparison import diff
from benchmarks.made import tables
from benchmarks.made.tables import KEY, Pair
from benchmarks.rounds import interleaved
from benchmarks.shown.figure import Figure, ratio

SMALL, MIDDLE, LARGE = 1_000_000, 2_000_000, 20_000_000
MEBIBYTE = 1 << 20


def measure(bench: Bench) -> Figure:
    """Return the seconds and the mebibytes at each size, by rounds."""
    pairs = {rows: tables.equal(bench, bench.sized(rows, least=tables.FILES)) for rows in (SMALL, MIDDLE, LARGE)}
    took = interleaved(
        {f"seconds, {rows:,} rows": _timed(bench, pairs[rows]) for rows in (MIDDLE, LARGE)},
        bench.rounds,
    )
    samples = interleaved(
        {f"MiB, {rows:,} rows": _measured(bench, pairs[rows]) for rows in (SMALL, LARGE)}, bench.rounds
    )
    return Figure(
        name="diff_growth",
        title="Compare ten times the rows",
        values=(
            ratio("growth_diff", took[f"seconds, {LARGE:,} rows"], took[f"seconds, {MIDDLE:,} rows"]),
            ratio("memory_diff", samples[f"MiB, {LARGE:,} rows"], samples[f"MiB, {SMALL:,} rows"]),
        ),
        sizes={"rows_a_side_x_10": pairs[LARGE].rows, "rounds": bench.rounds},
        unit="s or MiB",
        samples=took | samples,
        equal=("every run reported that the tables agree",),
        notes=("Memory: the highest resident size of a process of `cutover diff`, sampled by psutil every 5 ms.",),
        full=pairs[LARGE].rows >= LARGE,
    )


def _timed(bench: Bench, pair: Pair) -> Callable[[int], float]:
    return lambda _: diff.ours(bench, pair, differing=0)


def _measured(bench: Bench, pair: Pair) -> Callable[[int], float]:
    return lambda _: _peak(bench, pair)


def _peak(bench: Bench, pair: Pair) -> float:
    """Return the most mebibytes that a process of the command held.

    Raises:
        AssertionError: It does not say that the tables agree.
    """
    with diff.fresh(bench) as settings:
        asked = ["diff", str(pair.expected), str(pair.actual), "--key", ",".join(KEY), "--window-column", KEY[0]]
        command = [sys.executable, "-m", "cutover.cli.app", *asked, "--json"]
        home = {"CUTOVER_HOME": str(settings.home), "PATH": "/usr/bin:/bin"}
        process = subprocess.Popen(command, env=home, stdout=subprocess.DEVNULL)
        seen, highest = psutil.Process(process.pid), 0
        while process.poll() is None:
            try:
                highest = max(highest, seen.memory_info().rss)
            except psutil.NoSuchProcess:
                break
            time.sleep(0.005)
        if process.wait() != 0:
            msg = f"`cutover diff`: expected exit code 0, got {process.returncode}"
            raise AssertionError(msg)
    return highest / MEBIBYTE
