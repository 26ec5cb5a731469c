"""Growth with ten times the data: of batch, fold and reconcile, and of `cutover diff` and the memory of its process."""

import subprocess
import sys
import time
from collections.abc import Callable

import psutil

from benchmarks.bench import Bench
from benchmarks.figures.comparison import diff, reconcile
from benchmarks.results.figure import Figure, ratio
from benchmarks.rounds import measure_interleaved, time_call
from benchmarks.workloads import lakes, tables
from benchmarks.workloads.tables import KEY, Pair

LARGE = 1_000_000
TIMES = 10


def measure_growth(bench: Bench) -> Figure:
    """Measure the seconds of each at both sizes, by rounds."""
    large = bench.sized(LARGE, least=TIMES)
    events = {name: lakes.make_event_lake(bench, size) for name, size in (("1", large // TIMES), ("10", large))}
    cells = {name: lakes.make_cell_lake(bench, size) for name, size in (("1", large // TIMES), ("10", large))}
    for workload in cells.values():
        workload.recompute()
    samples = measure_interleaved(
        {f"ours, batch x {n}": lambda _, w=w: time_call(w.recompute) for n, w in events.items()}
        | {f"ours, fold x {n}": lambda _, w=w: time_call(w.fold) for n, w in cells.items()}
        | {f"ours, reconcile x {n}": lambda _, w=w: reconcile.time_reconcile(w) for n, w in cells.items()},
        bench.rounds,
    )
    return Figure(
        name="growth",
        title="Ten times the data",
        values=tuple(
            ratio(f"growth_{name}", samples[f"ours, {name} x 10"], samples[f"ours, {name} x 1"])
            for name in ("batch", "fold", "reconcile")
        ),
        sizes={"events_x_10": large, "rows_x_10": large, "partial_rows_x_10": large * lakes.PASSES},
        unit="s",
        samples=samples,
        equal=("every reconciliation reported that both sides agree",),
        notes=("Batch: events into windows of 10 s x 200 keys. Fold and reconcile: rows of three partial rows each.",),
        full=large >= LARGE,
    )


SMALL_ROWS, MIDDLE_ROWS, LARGE_ROWS = 1_000_000, 2_000_000, 20_000_000
MEBIBYTE = 1 << 20


def measure_diff_growth(bench: Bench) -> Figure:
    """Measure the seconds and the mebibytes at each size, by rounds."""
    pairs = {
        rows: tables.make_equal_pair(bench, bench.sized(rows, least=tables.FILES))
        for rows in (SMALL_ROWS, MIDDLE_ROWS, LARGE_ROWS)
    }
    took = measure_interleaved(
        {f"seconds, {rows:,} rows": _make_timer(bench, pairs[rows]) for rows in (MIDDLE_ROWS, LARGE_ROWS)},
        bench.rounds,
    )
    samples = measure_interleaved(
        {f"MiB, {rows:,} rows": _make_memory_meter(bench, pairs[rows]) for rows in (SMALL_ROWS, LARGE_ROWS)},
        bench.rounds,
    )
    return Figure(
        name="diff_growth",
        title="Compare ten times the rows",
        values=(
            ratio("growth_diff", took[f"seconds, {LARGE_ROWS:,} rows"], took[f"seconds, {MIDDLE_ROWS:,} rows"]),
            ratio("memory_diff", samples[f"MiB, {LARGE_ROWS:,} rows"], samples[f"MiB, {SMALL_ROWS:,} rows"]),
        ),
        sizes={"rows_a_side_x_10": pairs[LARGE_ROWS].rows, "rounds": bench.rounds},
        unit="s or MiB",
        samples=took | samples,
        equal=("every run reported that the tables agree",),
        notes=("Memory: the highest resident size of a process of `cutover diff`, sampled by psutil every 5 ms.",),
        full=pairs[LARGE_ROWS].rows >= LARGE_ROWS,
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
