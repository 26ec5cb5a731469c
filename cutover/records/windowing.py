"""The windows of a record in Spark SQL: what `intervals` of each says, in whole microseconds since 1970.

All arithmetic floors, so that a time before 1970 falls into the window that holds it. Spark reads the clock on the wall
as Python does: a time that it skips as before the change, of one that it shows twice the first.
"""

from dataclasses import dataclass
from math import gcd

from cutover.definition.model.durations import MICROSECONDS
from cutover.definition.model.windows import EARLIEST, LATEST, Daily, Sessions, Sliding, Window

_DAYS_NEAR = range(-2, 3)  # of a date: its day begins less than a day after midnight, and a zone may skip a date


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSql:
    """Texts over an event time; null where that is null."""

    start: str  # of the newest window that holds it: bigint
    back: str | None = None  # where there can be more: how far before `start` the oldest one begins
    every: int = 0  # where there can be more: microseconds between two of them


def sql_of(window: Window, event: str) -> WindowSql:
    """Return how Spark computes the starts of the windows that hold an event time.

    Args:
        window: The definition's.
        event: Name of a bigint column, microseconds since 1970.
    """
    if isinstance(window, Daily):
        days = ", ".join(f"IF({day} <= {event}, {day}, NULL)" for day in _days(window, event))
        return WindowSql(start=f"greatest({days})")
    if isinstance(window, Sessions):  # of a row alone: they merge where they are folded
        return WindowSql(start=event)
    if not isinstance(window, Sliding):
        return WindowSql(start=f"IF({event} IS NULL, NULL, {EARLIEST}L)")
    into = f"pmod({event} - {window.offset}L, {window.every}L)"
    start = f"({event} - {into})"
    if window.most == 1:
        return WindowSql(start=start)
    back = f"(({window.size - 1}L - {into}) DIV {window.every}L) * {window.every}L"
    return WindowSql(start=start, back=back, every=window.every)


def end_of(window: Window, start: str, event: str) -> str:
    """Return how Spark computes the end of a window from its start and an event time that it holds."""
    if isinstance(window, Daily):
        days = ", ".join(f"IF({day} > {event}, {day}, NULL)" for day in _days(window, event))
        return f"least({days})"
    if isinstance(window, Sessions):
        return f"({start} + {window.gap_micros}L)"
    return f"({start} + {window.size}L)" if isinstance(window, Sliding) else f"IF({start} IS NULL, NULL, {LATEST}L)"


def slice_of(window: Window) -> int | None:
    """Return the length of a slice, microseconds: all rows of one fall into the same windows. None: into one each.

    Source:
        Li et al., No Pane, No Gain, SIGMOD Record 34(1), 2005, section 3 (there a slice is called a pane).
    """
    return gcd(window.size, window.every) if isinstance(window, Sliding) and window.most > 1 else None


def slice_start(event: str, window: Sliding, length: int) -> str:
    """Return how Spark computes the start of the slice of a length that holds an event time: bigint."""
    return f"({event} - pmod({event} - {window.offset}L, {length}L))"


def _days(window: Daily, event: str) -> list[str]:
    """Return the starts of the days around an event time, ascending, bigint."""
    wall = f"from_utc_timestamp(timestamp_micros({event}), '{window.zone}')"
    midnight = f"unix_micros(date_trunc('DAY', {wall}))"
    shifts = [day * MICROSECONDS["day"] + window.offset_micros for day in _DAYS_NEAR]
    return [
        f"unix_micros(to_utc_timestamp(timestamp_micros({midnight} + {shift}L), '{window.zone}'))" for shift in shifts
    ]
