"""Windows that a range of event time affects where rows may be missing: those inside it; of sessions, all it touches.

The bounds of a session depend on its rows, so a row that is missing inside a range may belong to every session that
touches the range, and may merge two of them. Ranges of sessions extend by the gap after the last row that may be
missing.
"""

from collections.abc import Iterable

from cutover.definition.windows.sessions import can_merge
from cutover.definition.windows.window_fn import Interval, WindowFn
from cutover.lake.batch_runs import Range


def is_affected_sql(window: WindowFn, ranges: Iterable[Range]) -> str:
    """Return DuckDB's condition over `window_start` and `window_end` that one of the ranges affects a window."""
    start, end = "epoch_us(window_start)", "epoch_us(window_end)"
    if window.merges:
        return " OR ".join(f"({start} <= {int(b)} AND {end} >= {int(a)})" for a, b in ranges) or "false"
    return " OR ".join(f"({start} >= {int(a)} AND {end} <= {int(b)})" for a, b in ranges) or "false"


def is_affected(window: WindowFn, interval: Interval, ranges: Iterable[Range]) -> bool:
    """Return whether a range contains a window entirely, or touches a session."""
    if window.merges:
        return any(can_merge(interval, Interval(*span)) for span in ranges)
    return any(start <= interval.start and interval.end <= end for start, end in ranges)
