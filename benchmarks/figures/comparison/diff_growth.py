"""Growth of `cutover diff`: its time for ten times the rows, the peak memory of its process for twenty times."""

import subprocess
import sys
import time
from collections.abc import Callable

import psutil

from benchmarks.bench import Bench
from benchmarks.figures.comparison import diff
from benchmarks.results.figure import Figure, ratio
from benchmarks.rounds import measure_interleaved
from benchmarks.workloads import tables
from benchmarks.workloads.tables import KEY, Pair

SMALL, MIDDLE, LARGE = 1_000_000, 2_000_000, 20_000_000
MEBIBYTE = 1 << 20


def measure(bench: Bench) -> Figure:
    """Measure the seconds and the mebibytes at each size, by rounds."""
    pairs = {
        rows: tables.make_equal_pair(bench, bench.sized(rows, least=tables.FILES)) for rows in (SMALL, MIDDLE, LARGE)
    }
    took = measure_interleaved(
        {f"seconds, {rows:,} rows": _make_timer(bench, pairs[rows]) for rows in (MIDDLE, LARGE)},
        bench.rounds,
    )
    samples = measure_interleaved(
        {f"MiB, {rows:,} rows": _make_memory_meter(bench, pairs[rows]) for rows in (SMALL, LARGE)}, bench.rounds
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


def _make_timer(bench: Bench, pair: Pair) -> Callable[[int], float]:
    return lambda _: diff.time_fresh_diff(bench, pair, differing=0)


def _make_memory_meter(bench: Bench, pair: Pair) -> Callable[[int], float]:
    return lambda _: _measure_peak(bench, pair)


def _measure_peak(bench: Bench, pair: Pair) -> float:
    """Return the peak resident memory of a process of the command, in MiB.

    Raises:
        AssertionError: The command does not report equal tables.
    """
    with diff.open_fresh_home(bench) as settings:
        arguments = ["diff", str(pair.expected), str(pair.actual), "--key", ",".join(KEY), "--window-column", KEY[0]]
        command = [sys.executable, "-m", "cutover.cli.app", *arguments, "--json"]
        home = {"CUTOVER_HOME": str(settings.home), "PATH": "/usr/bin:/bin"}
        process = subprocess.Popen(command, env=home, stdout=subprocess.DEVNULL)
        monitored, highest = psutil.Process(process.pid), 0
        while process.poll() is None:
            try:
                highest = max(highest, monitored.memory_info().rss)
            except psutil.NoSuchProcess:
                break
            time.sleep(0.005)
        if process.wait() != 0:
            msg = f"`cutover diff`: expected exit code 0, got {process.returncode}"
            raise AssertionError(msg)
    return highest / MEBIBYTE
