"""Which windows a stretch of time stands for where rows may be missing: those inside; of sessions, all it touches.

A session begins and ends where its rows say, so a row that is missing inside a stretch may belong to each that touches
it, and may join two of them. Stretches of sessions reach to the gap behind the last row that may be missing.
"""

from collections.abc import Iterable

from cutover.definition.windows.sessions import can_merge
from cutover.definition.windows.window_fn import Interval, WindowFn
from cutover.lake.batch_runs import Range


def is_affected_sql(window: WindowFn, ranges: Iterable[Range]) -> str:
    """Return DuckDB's condition over `window_start` and `window_end` that one of the ranges stands for a window."""
    start, end = "epoch_us(window_start)", "epoch_us(window_end)"
    if window.merges:
        return " OR ".join(f"({start} <= {int(b)} AND {end} >= {int(a)})" for a, b in ranges) or "false"
    return " OR ".join(f"({start} >= {int(a)} AND {end} <= {int(b)})" for a, b in ranges) or "false"


def is_affected(window: WindowFn, interval: Interval, ranges: Iterable[Range]) -> bool:
    """Ask of a window whether a range holds it wholly, of a session whether one touches it."""
    if window.merges:
        return any(can_merge(interval, Interval(*span)) for span in ranges)
    return any(first <= interval.start and interval.end <= last for first, last in ranges)
