"""Interface of a kind of window: assignment in Python and in Spark SQL, merging, closing, and the reach of a loss.

Windows are half-open, `[start, end)`, in microseconds since 1970 in UTC. People enter ranges of event time, in which a
date is a day as the pipeline's windows count days.

Source:
    Akidau et al., The Dataflow Model, VLDB 2015, section 2.2 (AssignWindows, MergeWindows); Beam's `WindowFn`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import ClassVar, NamedTuple

from cutover.errors import DefinitionError
from cutover.timestamps import from_micros, to_micros

FOREVER = 2**62
"""Watermark once all input has been read: later than the end of every window."""

EARLIEST = -30_610_224_000_000_000
"""1000-01-01T00:00:00Z, where event time and the global window start."""

LATEST = 221_845_392_000_000_000
"""9000-01-01T00:00:00Z, where event time ends: every engine can still represent the end of a window around it."""


class Interval(NamedTuple):
    """Half-open interval of event time, `[start, end)`, in microseconds since 1970; often a window."""

    start: int
    end: int


def merge_intervals(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """Merge intervals that overlap or meet, in any order; returns them ascending."""
    merged: list[Interval] = []
    for interval in sorted(intervals):
        if merged and interval.start <= merged[-1].end:
            merged[-1] = Interval(merged[-1].start, max(merged[-1].end, interval.end))
        else:
            merged.append(interval)
    return tuple(merged)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSql:
    """Starts of the windows that contain an event time, as Spark SQL (bigint, microseconds); null if that is null."""

    start: str  # of the last window that contains it
    span: str | None = None  # from the start of the first such window to `start`; None if there can be only one
    every: int = 0  # microseconds between the starts of two such windows, if there can be several


class WindowFn(ABC):
    """Kind of window with its parameters. Two are equivalent if their `describe` is equal."""

    __slots__ = ()
    merges: ClassVar[bool] = False
    """Whether windows of a key that touch merge into one, so that rows decide where a window starts and ends."""

    @property
    def max_windows(self) -> int:
        """Maximum number of windows that contain one event time, before they merge."""
        return 1

    @property
    def min_windows(self) -> int:
        """Minimum number of windows that contain one event time."""
        return 1

    @property
    def slice_micros(self) -> int | None:
        """Length of a slice, whose rows all belong to the same windows; None if each row belongs to one window."""
        return None

    @property
    def closes_after(self) -> int:
        """Distance, besides allowed lateness, that the watermark must pass the end of a window by to close it."""
        return 0

    @property
    def late_after(self) -> int:
        """Distance, besides lateness, that the watermark must pass the end of a row's window by to make it late."""
        return 0

    @property
    @abstractmethod
    def reach(self) -> int | None:
        """Upper bound of the time from an event to the end of its last window, in microseconds; None if unbounded."""

    @abstractmethod
    def assign_windows(self, event_micros: int) -> tuple[Interval, ...]:
        """Return all windows that contain an event time, ascending; of merging windows that of this row alone."""

    @abstractmethod
    def starts_sql(self, event: str) -> WindowSql:
        """Return Spark SQL for the starts of the windows that contain an event time (name of a bigint column)."""

    @abstractmethod
    def end_sql(self, start: str, event: str) -> str:
        """Return Spark SQL for the end of a window, from its start and an event time that it contains."""

    @abstractmethod
    def describe(self) -> list[str | int]:
        """Return the values that identify the windows in a fingerprint: equal for equal windows."""

    @abstractmethod
    def last_end_before(self, micros: int) -> int:
        """Return the end of a range that touches every window that starts before a time; inverse of `start_after`."""

    @abstractmethod
    def start_after(self, end: int) -> int:
        """Return the start of a range that touches every window that ends after a time."""

    @abstractmethod
    def end_of_starts(self, event_micros: int) -> int:
        """Return the exclusive upper bound of the starts of windows that contain events up to a time."""

    def event_range(self, interval: Interval) -> Interval:
        """Return the range of event time of all records that belong to a window or would merge into it."""
        return interval

    def day_interval(self, day: date) -> Interval:
        """Return a day as these windows count days: from midnight to midnight in UTC unless they have a zone."""
        start = to_micros(datetime.combine(day, time(), tzinfo=UTC))
        return Interval(start, start + timedelta(days=1) // timedelta(microseconds=1))


class AlignedWindowFn(WindowFn):
    """Windows whose bounds do not depend on the rows; starts and ends ascend together."""

    __slots__ = ()

    @abstractmethod
    def next_start(self, start: int) -> int:
        """Return the start of the window that follows the one at `start`, in microseconds."""

    def last_end_before(self, micros: int) -> int:
        """Return the end of the last window that starts before a time."""
        return select_last_window(self, micros - 1).end

    def start_after(self, end: int) -> int:
        """Return the start of the first window that ends after a time; after the last window, the end of that one."""
        window = select_first_window(self, end)
        return window.start if window.end > end else self.next_start(window.start)

    def end_of_starts(self, event_micros: int) -> int:
        """Return the start of the window after the last one that contains an event time."""
        return self.next_start(select_last_window(self, event_micros).start)


def select_first_window(window: AlignedWindowFn, micros: int) -> Interval:
    """Return the first window that contains a time, which is the first one that ends after it."""
    return window.assign_windows(micros)[0]


def select_last_window(window: WindowFn, micros: int) -> Interval:
    """Return the last window that contains a time; for the start of an aligned window, that window."""
    return window.assign_windows(micros)[-1]


def list_windows(window: AlignedWindowFn, start: int, end: int) -> Iterator[Interval]:
    """Yield the windows that end in `(start, end]`, ascending, including windows without records."""
    interval = select_first_window(window, start)
    while interval.end <= end:
        if interval.end > start:
            yield interval
        interval = select_last_window(window, window.next_start(interval.start))


_MICROSECOND = timedelta(microseconds=1)


def parse_range_end(text: str, window: WindowFn, *, of: str) -> datetime:
    """Parse one end of a range, as UTC.

    Args:
        text: ISO 8601. A date without a time means the start of that day: in the zone and with the offset of calendar
            windows, otherwise in UTC. A time without a zone is UTC.
        window: The definition's.
        of: What the time belongs to, as the message names it: "`--from`".

    Raises:
        DefinitionError: The text is not a time.
    """
    try:
        return compute_day_range(date.fromisoformat(text), window)[0]
    except ValueError:
        pass
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        msg = f"{of}: expected a time such as `2013-02-08T14:00:00Z` or a date such as `2013-02-08`, got `{text[:80]}`."
        raise DefinitionError(msg) from None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def compute_day_range(compute_day_range: date, window: WindowFn) -> tuple[datetime, datetime]:
    """Return the start and the end of a day in UTC, as the windows count days."""
    interval = window.day_interval(compute_day_range)
    return from_micros(interval.start), from_micros(interval.end)


def extend_to_windows(window: AlignedWindowFn, event_range: tuple[int, int]) -> Interval:
    """Extend a range to whole windows: from the start of the first window that it touches to the end of the last.

    Args:
        window: The definition's.
        event_range: `[start, end)`, microseconds.

    Raises:
        DefinitionError: The range is outside the years that event time can have.
    """
    start, end = max(event_range[0], EARLIEST), min(event_range[1], LATEST)
    if start >= end:
        msg = "Range of windows: expected one between the years 1000 and 9000, got another."
        raise DefinitionError(msg)
    return Interval(select_first_window(window, start).start, select_last_window(window, end - 1).end)
