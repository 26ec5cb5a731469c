"""What every kind of window says of itself: assignment in Python and Spark, merging, closing, and what a loss touches.

Windows are half-open, `[start, end)`, in microseconds since 1970 in UTC.

Source:
    Akidau et al., The Dataflow Model, VLDB 2015, section 2.2 (AssignWindows, MergeWindows); Beam's `WindowFn`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import ClassVar, NamedTuple

from cutover.timestamps import to_micros

FOREVER = 2**62
"""Later than the end of every window: the watermark once all input is in."""

EARLIEST = -30_610_224_000_000_000
"""1000-01-01T00:00:00Z, where event time begins, and with it the global window."""

LATEST = 221_845_392_000_000_000
"""9000-01-01T00:00:00Z, where event time ends: every engine can still write the end of a window around it."""


class Interval(NamedTuple):
    """One window: `[start, end)`, microseconds since 1970."""

    start: int
    end: int


def merge_intervals(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """Join all that overlap or meet, ascending; the order in which they are given never matters."""
    found: list[Interval] = []
    for one in sorted(intervals):
        if found and one.start <= found[-1].end:
            found[-1] = Interval(found[-1].start, max(found[-1].end, one.end))
        else:
            found.append(one)
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSql:
    """Spark SQL over an event time (bigint, microseconds); null where that is null."""

    start: str  # of the newest window that holds it: bigint
    back: str | None = None  # where there can be more: how far before `start` the oldest one begins
    every: int = 0  # where there can be more: microseconds between two of them


class WindowFn(ABC):
    """A kind of window with its parameters. What two of them mean is the same if `describe` is."""

    __slots__ = ()
    merges: ClassVar[bool] = False
    """Whether windows of a key that touch become one: they begin and end where their rows say."""

    @property
    def most(self) -> int:
        """How many windows hold one event time at most, before they merge."""
        return 1

    @property
    def least(self) -> int:
        """How many windows hold one event time at least."""
        return 1

    @property
    def slice_micros(self) -> int | None:
        """Length of the stretches whose rows all fall into the same windows; None: a row falls into one window."""
        return None

    @property
    def closes_after(self) -> int:
        """How far the watermark must be beyond the end of a window, besides the allowed lateness, to close it."""
        return 0

    @property
    def late_after(self) -> int:
        """How far the watermark must be beyond the end of a row's own window, besides lateness, for it to be late."""
        return 0

    @property
    @abstractmethod
    def reach(self) -> int | None:
        """How long after an event time its last window ends at most, microseconds; None: windows never close."""

    @abstractmethod
    def intervals(self, event_micros: int) -> tuple[Interval, ...]:
        """Return all windows that hold an event time, ascending; of merging windows the one of this row alone."""

    @abstractmethod
    def starts_sql(self, event: str) -> WindowSql:
        """Return how Spark computes the starts of the windows that hold an event time (name of a bigint column)."""

    @abstractmethod
    def end_sql(self, start: str, event: str) -> str:
        """Return how Spark computes the end of a window from its start and an event time that it holds."""

    @abstractmethod
    def describe(self) -> list[str | int]:
        """Return what a fingerprint is made of: equal for equal windows."""

    @abstractmethod
    def last_end(self, before: int) -> int:
        """Return the end of a range that stands for every window that begins before a time; `start_after` undoes it."""

    @abstractmethod
    def start_after(self, end: int) -> int:
        """Return where a range begins that stands for every window that ends after a time."""

    @abstractmethod
    def end_of_starts(self, event_micros: int) -> int:
        """Return the end of the range of starts `[_, end)` in which windows of events up to a time begin."""

    def event_range(self, one: Interval) -> Interval:
        """Return the range of event time that holds each record that belongs to a window, or would join it."""
        return one

    def day(self, named: date) -> Interval:
        """Return a date as these windows count it: from midnight to midnight in UTC where they know no zone."""
        start = to_micros(datetime.combine(named, time(), tzinfo=UTC))
        return Interval(start, start + timedelta(days=1) // timedelta(microseconds=1))


class AlignedWindowFn(WindowFn):
    """Windows that lie where they lie, whatever the rows: starts and ends ascend together."""

    __slots__ = ()

    @abstractmethod
    def following(self, start: int) -> int:
        """Return the start of the window after the one that begins at `start`."""

    def last_end(self, before: int) -> int:
        """Return the end of the last window that begins before a time."""
        return newest(self, before - 1).end

    def start_after(self, end: int) -> int:
        """Return the start of the first window that ends after a time; behind the last window, where that ends."""
        first = oldest(self, end)
        return first.start if first.end > end else self.following(first.start)

    def end_of_starts(self, event_micros: int) -> int:
        """Return the start of the window after the last one that holds an event time."""
        return self.following(newest(self, event_micros).start)


def oldest(window: AlignedWindowFn, micros: int) -> Interval:
    """Return the first window that ends after a time."""
    return window.intervals(micros)[0]


def newest(window: WindowFn, micros: int) -> Interval:
    """Return the last window of a row at a time; of an aligned window's start, that window."""
    return window.intervals(micros)[-1]


def list_windows(window: AlignedWindowFn, first: int, end: int) -> Iterator[Interval]:
    """Yield the windows that end after `first` and at `end` at the latest, ascending; those without records too."""
    one = oldest(window, first)
    while one.end <= end:
        if one.end > first:
            yield one
        one = newest(window, window.following(one.start))
