"""Where in event time: fixed, sliding, daily, session and global windows, half-open `[start, end)`, in microseconds.

Every window says by `intervals` into which windows one event time falls. Of sessions that is the window of the event
alone; `merge_sessions` joins those that touch.

Source:
    Akidau et al., The Dataflow Model, VLDB 2015, section 2.2 (AssignWindows, MergeWindows).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import pairwise
from typing import ClassVar, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cutover.definition.model.durations import LONGEST_DAYS, MICROSECONDS, parse_duration
from cutover.errors import DefinitionError
from cutover.timestamps import from_micros, to_micros

FOREVER = 2**62
"""Later than the end of every window: the watermark once all input is in."""

EARLIEST = -30_610_224_000_000_000
"""1000-01-01T00:00:00Z, where event time begins, and with it the global window."""

LATEST = 221_845_392_000_000_000
"""9000-01-01T00:00:00Z, where event time ends: every engine can still write the end of a window around it."""

_MICROSECOND = timedelta(microseconds=1)


class Interval(NamedTuple):
    """One window: `[start, end)`, microseconds since 1970."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sliding:
    """Windows of `size` that begin at each multiple of `every`, or `offset` later.

    A row falls into `ceil(size / every)` windows at most; `size == every` is a fixed window.
    """

    size: int  # microseconds
    every: int  # microseconds
    offset: int = 0  # microseconds after each multiple of `every` since 1970 in UTC

    def __post_init__(self) -> None:
        if self.size <= 0 or self.every <= 0 or self.every > self.size:
            msg = f"Window: expected 0 < every <= size, got size {self.size} us, every {self.every} us."
            raise DefinitionError(msg)
        if self.size > LONGEST_DAYS * MICROSECONDS["day"]:
            msg = f"Window: expected a size of at most {LONGEST_DAYS} days, got {self.size // MICROSECONDS['day']}."
            raise DefinitionError(msg)
        if not 0 <= self.offset < self.every:
            msg = f"Window: expected 0 <= offset < every, got offset {self.offset} us, every {self.every} us."
            raise DefinitionError(msg)

    def starts(self, event_micros: int) -> tuple[int, ...]:
        """Return the starts (microseconds) of all windows that hold an event time, ascending."""
        into = (event_micros - self.offset) % self.every
        last = event_micros - into
        first = last - ((self.size - 1 - into) // self.every) * self.every
        return tuple(range(first, last + 1, self.every))

    def intervals(self, event_micros: int) -> tuple[Interval, ...]:
        """Return all windows that hold an event time, ascending."""
        return tuple(Interval(start, start + self.size) for start in self.starts(event_micros))

    def following(self, start: int) -> int:
        """Return the start of the window after the one that begins at `start`."""
        return start + self.every

    @property
    def most(self) -> int:
        """Return how many windows hold one event time at most."""
        return -(-self.size // self.every)

    @property
    def least(self) -> int:
        """Return how many windows hold one event time at least."""
        return self.size // self.every


@dataclass(frozen=True, slots=True, kw_only=True)
class Daily:
    """Days as a clock on the wall counts them: 23 or 25 hours long where the clock is changed.

    A day begins when that clock shows `offset` after midnight. A time that it skips is read by the clock as it was
    before the change: midnight, skipped from 00:00 to 01:00, is 01:00, the moment of the change; 02:30, skipped from
    02:00 to 03:00, is 03:30. Of a time that it shows twice the first counts. A date that a zone left out has no window.
    """

    zone: str  # a name of the IANA time zone database, such as `Europe/Berlin`
    offset: str = "0 hours"  # less than a day
    most: ClassVar[int] = 1
    least: ClassVar[int] = 1

    def __post_init__(self) -> None:
        try:
            ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            msg = f"Window `Daily`: zone: expected a name such as `Europe/Berlin`, got `{self.zone[:80]}`."
            raise DefinitionError(msg) from None
        if self.offset_micros >= MICROSECONDS["day"]:
            msg = f"Window `Daily`: offset: expected less than a day, got `{self.offset}`."
            raise DefinitionError(msg)

    def intervals(self, event_micros: int) -> tuple[Interval, ...]:
        """Return the one day that holds an event time."""
        near = from_micros(event_micros).astimezone(ZoneInfo(self.zone)).date()
        starts = [self._start(near + timedelta(days=days)) for days in range(-2, 3)]
        days = (Interval(start, end) for start, end in pairwise(starts))
        return tuple(day for day in days if day.start <= event_micros < day.end)

    def day(self, named: date) -> Interval:
        """Return the window of a date; empty where the zone left that date out."""
        return Interval(self._start(named), self._start(named + timedelta(days=1)))

    def following(self, start: int) -> int:
        """Return the start of the day after the one that begins at `start`."""
        return self.intervals(start)[0].end

    @property
    def offset_micros(self) -> int:
        """Return how long after midnight a day begins, microseconds by the clock on the wall."""
        return parse_duration(self.offset, of="window.offset")

    def _start(self, day: date) -> int:
        # `fold=0`: of a time that is shown twice the first; one that is skipped by the clock before the change.
        wall = datetime.combine(day, time()) + self.offset_micros * _MICROSECOND
        return to_micros(wall.replace(tzinfo=ZoneInfo(self.zone)))


@dataclass(frozen=True, slots=True)
class Sessions:
    """Rows of a key that follow one another at a distance of at most `gap`, and `gap` behind the last of them.

    The gap is inclusive: two rows that are exactly `gap` apart are of one session.
    """

    gap: str  # such as `30 minutes`
    most: ClassVar[int] = 1  # windows that hold one event time, before sessions are merged
    least: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.gap_micros == 0:
            msg = f"Window `Sessions`: gap: expected more than nothing, got `{self.gap}`."
            raise DefinitionError(msg)

    @property
    def gap_micros(self) -> int:
        """Return the gap in microseconds."""
        return parse_duration(self.gap, of="window.gap")

    def intervals(self, event_micros: int) -> tuple[Interval, ...]:
        """Return the session of one row alone."""
        return (Interval(event_micros, event_micros + self.gap_micros),)


@dataclass(frozen=True, slots=True)
class Global:
    """One window for all of event time."""

    most: ClassVar[int] = 1
    least: ClassVar[int] = 1

    def intervals(self, event_micros: int) -> tuple[Interval, ...]:  # noqa: ARG002 -- every window's signature
        """Return the window."""
        return (Interval(EARLIEST, LATEST),)

    def following(self, start: int) -> int:  # noqa: ARG002 -- every aligned window's signature
        """Return the end of event time: there is no window after this one."""
        return LATEST


Aligned = Sliding | Daily | Global
"""Windows that lie where they lie, whatever the rows: starts and ends ascend together."""

Window = Aligned | Sessions


def oldest(window: Aligned, micros: int) -> Interval:
    """Return the first window that ends after a time."""
    return window.intervals(micros)[0]


def newest(window: Window, micros: int) -> Interval:
    """Return the last window of a row at a time; of an aligned window's start, that window."""
    return window.intervals(micros)[-1]


def touch(one: Interval, other: Interval) -> bool:
    """Return whether two sessions are one: their ends may meet, since the gap is inclusive."""
    return one.start <= other.end and other.start <= one.end


def merge_sessions(sessions: Iterable[Interval]) -> tuple[Interval, ...]:
    """Return the sessions with all that touch joined, ascending; the order in which they are given never matters."""
    found: list[Interval] = []
    for session in sorted(sessions):
        if found and touch(found[-1], session):
            last = found.pop()
            found.append(Interval(last.start, max(last.end, session.end)))
        else:
            found.append(session)
    return tuple(found)


def _micros(days: int, hours: int, minutes: int, seconds: int) -> int:
    return (
        days * MICROSECONDS["day"]
        + hours * MICROSECONDS["hour"]
        + minutes * MICROSECONDS["minute"]
        + seconds * MICROSECONDS["second"]
    )


def Fixed(  # noqa: N802 -- reads as a value
    *, days: int = 0, hours: int = 0, minutes: int = 0, seconds: int = 0, offset: str = "0 seconds"
) -> Sliding:
    """Return windows without gap or overlap, each beginning `offset` after a multiple of its size."""
    size = _micros(days, hours, minutes, seconds)
    return Sliding(size=size, every=size, offset=parse_duration(offset, of="window.offset"))
