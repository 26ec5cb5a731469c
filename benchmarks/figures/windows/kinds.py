"""Sliding windows, sixty per row, and sessions of many keys: the streaming path, compared with Spark over the topic."""

from benchmarks.bench import Bench
from benchmarks.peers import batch_jobs
from benchmarks.results.figure import Figure
from benchmarks.workloads import events, windows

EVENTS, CAP = 1_000_000, 500_000


def measure_sliding(bench: Bench) -> Figure:
    """Measure the seconds of both, by rounds."""
    kind = windows.WindowKind(
        name="sliding",
        title="Sliding windows: 60 a row",
        window="Sliding(size='10 minutes', every='10 seconds')",
        spark_window=lambda: batch_jobs.sliding("10 minutes", "10 seconds"),
        generate=events.generate_events,
        events=EVENTS,
        cap=CAP,
        notes=("10 minutes every 10 seconds, 200 keys: Spark's `window` turns one row into the same sixty.",),
    )
    return windows.measure(bench, kind)


SESSION_EVENTS, KEYS, SESSION_CAP = 1_000_000, 100_000, 500_000
GAP = 10  # minutes


def measure_sessions(bench: Bench) -> Figure:
    """Measure the seconds of both, by rounds."""
    kind = windows.WindowKind(
        name="sessions",
        title="Sessions: 1 M events of 100 k keys",
        window=f'Sessions("{GAP} minutes")',
        spark_window=lambda: batch_jobs.sessions(GAP),
        generate=lambda count: events.generate_events(
            count, keys=max(1, count * KEYS // SESSION_EVENTS), per_second=100
        ),
        events=SESSION_EVENTS,
        cap=SESSION_CAP,
        notes=("A row of a key every 17 minutes of event time (on average), a gap of 10: about 1.8 rows per session.",),
    )
    return windows.measure(bench, kind)
