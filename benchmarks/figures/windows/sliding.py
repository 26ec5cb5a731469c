"""Sliding windows, sixty per row: the streaming path, compared with Spark's `window` over the whole topic."""

from benchmarks.bench import Bench
from benchmarks.peers import batch_windows
from benchmarks.results.figure import Figure
from benchmarks.workloads import events, windows

EVENTS, CAP = 1_000_000, 500_000


def measure(bench: Bench) -> Figure:
    """Measure the seconds of both, by rounds."""
    kind = windows.WindowKind(
        name="sliding",
        title="Sliding windows: 60 a row",
        window="Sliding(size='10 minutes', every='10 seconds')",
        spark_window=lambda: batch_windows.sliding("10 minutes", "10 seconds"),
        generate=events.generate_events,
        events=EVENTS,
        cap=CAP,
        notes=("10 minutes every 10 seconds, 200 keys: Spark's `window` turns one row into the same sixty.",),
    )
    return windows.measure(bench, kind)
