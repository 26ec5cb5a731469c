"""Sessions of many keys: the streaming path, compared with Spark's `session_window` over the whole topic."""

from benchmarks.bench import Bench
from benchmarks.peers import batch_windows
from benchmarks.results.figure import Figure
from benchmarks.workloads import events, windows

EVENTS, KEYS, CAP = 1_000_000, 100_000, 500_000
GAP = 10  # minutes


def measure(bench: Bench) -> Figure:
    """Measure the seconds of both, by rounds."""
    kind = windows.WindowKind(
        name="sessions",
        title="Sessions: 1 M events of 100 k keys",
        window=f'Sessions("{GAP} minutes")',
        spark_window=lambda: batch_windows.sessions(GAP),
        generate=lambda count: events.generate_events(count, keys=max(1, count * KEYS // EVENTS), per_second=100),
        events=EVENTS,
        cap=CAP,
        notes=("A row of a key every 17 minutes of event time (on average), a gap of 10: about 1.8 rows per session.",),
    )
    return windows.measure(bench, kind)
