"""Windows of which sixty hold each row: the streaming path beside Spark's own `window` over the whole topic."""

from benchmarks.bench import Bench
from benchmarks.made import events, windows
from benchmarks.peers import batch_windows
from benchmarks.shown.figure import Figure

EVENTS, CAP = 1_000_000, 500_000


def measure(bench: Bench) -> Figure:
    """Return the seconds of both, by rounds."""
    kind = windows.Kind(
        name="sliding",
        title="Sliding windows: 60 a row",
        window="Sliding(size='10 minutes', every='10 seconds')",
        theirs=lambda: batch_windows.sliding("10 minutes", "10 seconds"),
        sent=events.stream_of,
        events=EVENTS,
        cap=CAP,
        notes=("10 minutes every 10 seconds, 200 keys: Spark's `window` turns one row into the same sixty.",),
    )
    return windows.measure(bench, kind)
