"""Sessions of many keys: the streaming path beside Spark's own `session_window` over the whole topic."""

from benchmarks.bench import Bench
from benchmarks.made import events, windows
from benchmarks.peers import batch_windows
from benchmarks.shown.figure import Figure

EVENTS, KEYS, CAP = 1_000_000, 100_000, 500_000
GAP = 10  # minutes


def measure(bench: Bench) -> Figure:
    """Return the seconds of both, by rounds."""
    kind = windows.Kind(
        name="sessions",
        title="Sessions: 1 M events of 100 k keys",
        window=f'Sessions("{GAP} minutes")',
        theirs=lambda: batch_windows.sessions(GAP),
        sent=lambda count: events.stream_of(count, keys=max(1, count * KEYS // EVENTS), a_second=100),
        events=EVENTS,
        cap=CAP,
        notes=("A row of a key every 17 minutes of event time (on average), a gap of 10: about 1.8 rows per session.",),
    )
    return windows.measure(bench, kind)
