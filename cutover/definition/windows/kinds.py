"""Kinds of windows: aligned ones, which are the same for all keys, and sessions, which depend on the rows of a key.

One fixed or sliding window starts at each multiple of a period. Calendar windows of a time zone start at a local time
of certain days, or of a day of each month. The global window, from 1000-01-01 to 9000-01-01, closes when all input has
been read. `KINDS` has each kind's name in a scenario file, its constructor from texts, and an example of a definition.

A local time that a clock change skips is interpreted with the UTC offset before the change: midnight, skipped from
00:00 to 01:00, is 01:00, the moment of the change; 02:30, skipped from 02:00 to 03:00, is 03:30. Of a local time that
occurs twice, the first occurrence counts. Python and Spark agree on both.

The rows of a session are each at most a gap after the previous one, and sessions merge. The gap is inclusive: two rows
that are exactly a gap apart belong to one session, so the end of a session belongs to it. Rows decide where a session
starts and ends; if rows may be missing, a range represents every session that touches it.

Source:
    Akidau et al., The Dataflow Model, VLDB 2015, sections 1.2 and 2.2 (MergeWindows). Slices: Li et al., No Pane, No
    Gain, SIGMOD Record 34(1), 2005, section 3 (there a slice is called a pane).
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from itertools import pairwise
from math import gcd
from typing import ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cutover.definition.windows.window_fn import EARLIEST, LATEST, AlignedWindowFn, Interval, WindowFn, WindowSql
from cutover.errors import DefinitionError
from cutover.timestamps import LONGEST_DAYS, MICROSECONDS, from_micros, parse_duration, to_micros


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindows(AlignedWindowFn):
    """Windows of `size` that start at each multiple of `every` since 1970 in UTC, plus `offset`; microseconds.

    A row belongs to at most `ceil(size / every)` windows; `size == every` is a fixed window.
    """

    size: int
    every: int
    offset: int = 0

    def __post_init__(self) -> None:
        if self.every <= 0 or self.every > self.size:
            msg = f"Window: expected 0 < every <= size, got size {self.size} us, every {self.every} us."
            raise DefinitionError(msg)
        if self.size > LONGEST_DAYS * MICROSECONDS["day"]:
            msg = f"Window: expected a size of at most {LONGEST_DAYS} days, got {self.size // MICROSECONDS['day']}."
            raise DefinitionError(msg)
        if not 0 <= self.offset < self.every:
            msg = f"Window: expected 0 <= offset < every, got offset {self.offset} us, every {self.every} us."
            raise DefinitionError(msg)

    @property
    def max_windows(self) -> int:
        """Maximum number of windows that contain one event time."""
        return -(-self.size // self.every)

    @property
    def min_windows(self) -> int:
        """Minimum number of windows that contain one event time."""
        return self.size // self.every

    @property
    def slice_micros(self) -> int | None:
        """Length of a slice, whose rows all belong to the same windows; None if each row belongs to one window."""
        return gcd(self.size, self.every) if self.max_windows > 1 else None

    @property
    def reach(self) -> int:
        """Upper bound of the time from an event to the end of its last window: the size."""
        return self.size

    def assign_windows(self, event_micros: int) -> tuple[Interval, ...]:
        """Return all windows that contain an event time, ascending."""
        since_start = (event_micros - self.offset) % self.every
        last_start = event_micros - since_start
        first_start = last_start - ((self.size - 1 - since_start) // self.every) * self.every
        return tuple(Interval(start, start + self.size) for start in range(first_start, last_start + 1, self.every))

    def starts_sql(self, event: str) -> WindowSql:
        """Return the starts of `assign_windows` in SQL; all arithmetic floors, so times before 1970 work as well."""
        since_start = f"pmod({event} - {self.offset}L, {self.every}L)"
        start = f"({event} - {since_start})"
        if self.max_windows == 1:
            return WindowSql(start=start)
        span = f"(({self.size - 1}L - {since_start}) DIV {self.every}L) * {self.every}L"
        return WindowSql(start=start, span=span, every=self.every)

    def end_sql(self, start: str, event: str) -> str:  # noqa: ARG002 -- every window's signature
        """Return the start plus the size, in microseconds."""
        return f"({start} + {self.size}L)"

    def slice_start_sql(self, event: str) -> str:
        """Return Spark SQL for the start of the slice that contains an event time: bigint."""
        return f"({event} - pmod({event} - {self.offset}L, {self.slice_micros}L))"

    def next_start(self, start: int) -> int:
        """Add the period `every` to the start of a window; microseconds."""
        return start + self.every

    def describe(self) -> list[str | int]:
        """Return size, period and any offset, in microseconds; hashed into the result fingerprint."""
        return [self.size, self.every, *([self.offset] if self.offset else [])]


def Fixed(  # noqa: N802 -- reads as a value
    *, days: int = 0, hours: int = 0, minutes: int = 0, seconds: int = 0, offset: str = "0 seconds"
) -> SlidingWindows:
    """Make windows without gap or overlap, each of which starts `offset` after a multiple of its size.

    Raises:
        DefinitionError: The size is zero, or the offset is not shorter than the size.
    """
    counts = {"day": days, "hour": hours, "minute": minutes, "second": seconds}
    size = sum(count * MICROSECONDS[unit] for unit, count in counts.items())
    return SlidingWindows(size=size, every=size, offset=parse_duration(offset, of="window.offset"))


def Sliding(*, size: str, every: str, offset: str = "0 seconds") -> SlidingWindows:  # noqa: N802 -- reads as a value
    """Make windows of a size, one of which starts `offset` after each multiple of a period; all such as `10 minutes`.

    Raises:
        DefinitionError: A text is not a duration, or `0 < every <= size` and `offset < every` do not hold.
    """
    return SlidingWindows(
        size=parse_duration(size, of="window.size"),
        every=parse_duration(every, of="window.every"),
        offset=parse_duration(offset, of="window.offset"),
    )


@dataclass(frozen=True, slots=True)
class Global(AlignedWindowFn):
    """Single window over all of event time."""

    @property
    def reach(self) -> None:
        """None: no watermark of a running stream passes the end of the window."""
        return None

    def assign_windows(self, event_micros: int) -> tuple[Interval, ...]:  # noqa: ARG002 -- every window's signature
        """Return the only window, from the earliest time to the latest."""
        return (Interval(EARLIEST, LATEST),)

    def starts_sql(self, event: str) -> WindowSql:
        """Return the earliest time in SQL; null where the event time is null."""
        return WindowSql(start=f"IF({event} IS NULL, NULL, {EARLIEST}L)")

    def end_sql(self, start: str, event: str) -> str:  # noqa: ARG002 -- every window's signature
        """Return the latest time in SQL, in microseconds; null where the start is null."""
        return f"IF({start} IS NULL, NULL, {LATEST}L)"

    def next_start(self, start: int) -> int:  # noqa: ARG002 -- every aligned window's signature
        """Return the end of event time: no window follows this one."""
        return LATEST

    def describe(self) -> list[str | int]:
        """Return the kind, which is hashed into the result fingerprint: all global windows are equal."""
        return ["global"]


_MICROSECOND = timedelta(microseconds=1)

_LONGEST_DAY = 49 * MICROSECONDS["hour"]  # in a zone that repeated a date
_DAYS_NEAR = range(-2, 3)  # around a date: its day starts less than a day after midnight, and a zone may skip a date

_LAST_FIRST_DAY = 28  # every month has one
_LONGEST = 33 * MICROSECONDS["day"]  # 31 days, and a zone that repeated a date
_MONTHS_NEAR = range(-2, 3)


def is_zone(name: object) -> bool:
    """Return whether a name means the same zone to Python and Java; they interpret short names differently."""
    if not isinstance(name, str) or not ("/" in name or name == "UTC") or name.startswith(("posix/", "right/")):
        return False
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class CalendarWindows(AlignedWindowFn):
    """Base of calendar windows; each kind defines on which days its windows start, in Python and in Spark SQL."""

    zone: str  # a name of the IANA time zone database, such as `Europe/Berlin`
    offset: str = field(default="0 hours", kw_only=True)  # after midnight, local time; less than a day

    def __post_init__(self) -> None:
        kind = type(self).__name__
        if not is_zone(self.zone):
            zone = self.zone if isinstance(self.zone, str) else repr(self.zone)
            msg = f"Window `{kind}`: zone: expected a name such as `Europe/Berlin` or `UTC`, got `{zone[:80]}`."
            raise DefinitionError(msg)
        if self.offset_micros >= MICROSECONDS["day"]:
            msg = f"Window `{kind}`: offset: expected less than a day, got `{self.offset}`."
            raise DefinitionError(msg)

    @property
    def offset_micros(self) -> int:
        """Time from midnight to the start of a window, in microseconds of local time."""
        return parse_duration(self.offset, of="window.offset")

    @abstractmethod
    def first_days(self, near: date) -> Iterator[date]:
        """Yield the days on which windows start, ascending: those around a date, two before and two after it."""

    @abstractmethod
    def first_days_sql(self, local: str) -> Iterator[str]:
        """Yield those days in Spark SQL: timestamps at midnight, computed from a local time (timestamp)."""

    def assign_windows(self, event_micros: int) -> tuple[Interval, ...]:
        """Return at most one window; none on a date that the zone skipped."""
        near = from_micros(event_micros).astimezone(ZoneInfo(self.zone)).date()
        candidates = (Interval(*bounds) for bounds in pairwise(map(self._start, self.first_days(near))))
        return tuple(window for window in candidates if window.start <= event_micros < window.end)

    def starts_sql(self, event: str) -> WindowSql:
        """Select the latest candidate start that is not after the event; candidates are the days around it."""
        starts = ", ".join(f"IF({start} <= {event}, {start}, NULL)" for start in self._starts_sql(event))
        return WindowSql(start=f"greatest({starts})")

    def end_sql(self, start: str, event: str) -> str:  # noqa: ARG002 -- every window's signature
        """Select the earliest candidate start that is after the event: the next day or month starts there."""
        return f"least({', '.join(f'IF({start} > {event}, {start}, NULL)' for start in self._starts_sql(event))})"

    def next_start(self, start: int) -> int:
        """Return the end of the window, in microseconds: calendar windows leave no gap."""
        return self.assign_windows(start)[0].end

    def day_interval(self, day: date) -> Interval:
        """Return a day in the zone, from its offset to that of the next day; empty for a date that the zone skipped."""
        return Interval(self._start(day), self._start(day + timedelta(days=1)))

    def _start(self, day: date) -> int:
        # `fold=0`: the first occurrence of a repeated time; the offset before the change for a skipped time.
        local = datetime.combine(day, time()) + self.offset_micros * _MICROSECOND
        return to_micros(local.replace(tzinfo=ZoneInfo(self.zone)))

    def _starts_sql(self, event: str) -> list[str]:
        local = f"from_utc_timestamp(timestamp_micros({event}), '{self.zone}')"
        return [
            f"unix_micros(to_utc_timestamp(timestamp_micros(unix_micros({midnight}) + {self.offset_micros}L),"
            f" '{self.zone}'))"
            for midnight in self.first_days_sql(local)
        ]


@dataclass(frozen=True, slots=True)
class Daily(CalendarWindows):
    """Days in local time: 23 or 25 hours long when clocks change.

    A day starts at `offset` after midnight, local time. A date that the zone skipped has no window.
    """

    @property
    def reach(self) -> int:
        """Upper bound of the time from an event to the end of its day."""
        return _LONGEST_DAY

    def first_days(self, near: date) -> Iterator[date]:
        """Yield the days around a date, ascending."""
        return (near + timedelta(days=days) for days in _DAYS_NEAR)

    def first_days_sql(self, local: str) -> Iterator[str]:
        """Yield the midnights of those days in Spark SQL."""
        midnight = f"unix_micros(date_trunc('DAY', {local}))"
        return (f"timestamp_micros({midnight} + {days * MICROSECONDS['day']}L)" for days in _DAYS_NEAR)

    def describe(self) -> list[str | int]:
        """Return kind, zone and offset in microseconds; hashed into the result fingerprint."""
        return ["daily", self.zone, self.offset_micros]


@dataclass(frozen=True, slots=True)
class Monthly(CalendarWindows):
    """Months in local time: from `first_day` of one month to `first_day` of the next, each at `offset`."""

    first_day: int = field(default=1, kw_only=True)  # of the month, 1 to 28

    def __post_init__(self) -> None:
        CalendarWindows.__post_init__(self)
        if type(self.first_day) is not int or not 1 <= self.first_day <= _LAST_FIRST_DAY:
            msg = (
                f"Window `Monthly`: first_day: expected a whole number, 1 to {_LAST_FIRST_DAY}, got {self.first_day!r}."
            )
            raise DefinitionError(msg)

    @property
    def reach(self) -> int:
        """Upper bound of the time from an event to the end of its month."""
        return _LONGEST

    def first_days(self, near: date) -> Iterator[date]:
        """Yield the first days of the months around a date, ascending."""
        months = (near.year * 12 + near.month - 1 + shift for shift in _MONTHS_NEAR)
        return (date(month // 12, month % 12 + 1, self.first_day) for month in months)

    def first_days_sql(self, local: str) -> Iterator[str]:
        """Yield the midnights of those days in Spark SQL."""
        month = f"CAST(date_trunc('MONTH', {local}) AS date)"
        days = (f"date_add(add_months({month}, {shift}), {self.first_day - 1})" for shift in _MONTHS_NEAR)
        return (f"CAST({day} AS timestamp)" for day in days)

    def describe(self) -> list[str | int]:
        """Return kind, zone, first day and offset in microseconds; hashed into the result fingerprint."""
        return ["monthly", self.zone, self.first_day, self.offset_micros]


@dataclass(frozen=True, slots=True)
class Sessions(WindowFn):
    """Sessions of a key: rows that are at most `gap` apart; a session ends `gap` after its last row."""

    gap: str  # such as `30 minutes`
    merges: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.gap_micros == 0:
            msg = f"Window `Sessions`: gap: expected more than zero, got `{self.gap}`."
            raise DefinitionError(msg)

    @property
    def gap_micros(self) -> int:
        """The gap in microseconds."""
        return parse_duration(self.gap, of="window.gap")

    @property
    def reach(self) -> int:
        """Time from an event to the end of the session of that row alone: the gap."""
        return self.gap_micros

    @property
    def closes_after(self) -> int:
        """Another gap and a microsecond: a row at the very end of a session would extend it by a gap."""
        return self.gap_micros + 1

    @property
    def late_after(self) -> int:
        """One microsecond: the end of a session belongs to it."""
        return 1

    def assign_windows(self, event_micros: int) -> tuple[Interval, ...]:
        """Return the session of the row alone; sessions that touch merge in the fold."""
        return (Interval(event_micros, event_micros + self.gap_micros),)

    def starts_sql(self, event: str) -> WindowSql:
        """Return the start of the session of a row alone; sessions that touch merge in the fold."""
        return WindowSql(start=event)

    def end_sql(self, start: str, event: str) -> str:  # noqa: ARG002 -- every window's signature
        """Return the start plus the gap, in microseconds: the end before any merge."""
        return f"({start} + {self.gap_micros}L)"

    def last_end_before(self, micros: int) -> int:
        """Return the last microsecond before a time: every session that starts before the time touches it."""
        return micros - 1

    def start_after(self, end: int) -> int:
        """Return the first microsecond after a time: every session that ends after the time touches what follows."""
        return end + 1

    def end_of_starts(self, event_micros: int) -> int:
        """Return the first microsecond after the session of a row alone: a session that starts by its end merges."""
        return event_micros + self.gap_micros + 1

    def event_range(self, interval: Interval) -> Interval:
        """Return a session with the gap before it and its end: a row there would join the session."""
        return Interval(interval.start - self.gap_micros, interval.end + 1)

    def describe(self) -> list[str | int]:
        """Return kind and gap in microseconds; hashed into the result fingerprint."""
        return ["sessions", self.gap_micros]


Window = AlignedWindowFn | Sessions
"""Window of a definition: the batch path recomputes aligned windows individually, and sessions from a time onwards."""


def can_merge(interval: Interval, second: Interval) -> bool:
    """Return whether two sessions are one: their ends may meet, since the gap is inclusive."""
    return interval.start <= second.end and second.start <= interval.end


@dataclass(frozen=True, slots=True)
class WindowKind:
    """Kind of window, as scenario files and definitions name it."""

    name: str
    make: Callable[..., AlignedWindowFn | Sessions]  # keywords; texts and whole numbers; raises DefinitionError
    example: str  # in a definition


def _make_fixed(*, size: str, offset: str = "0 seconds") -> SlidingWindows:
    """Make consecutive windows of one size."""
    micros = parse_duration(size, of="size")
    return SlidingWindows(size=micros, every=micros, offset=parse_duration(offset, of="offset"))


KINDS = (
    WindowKind("fixed", _make_fixed, "Fixed(hours=1)"),
    WindowKind("sliding", Sliding, 'Sliding(size="1 hour", every="10 minutes")'),
    WindowKind("daily", Daily, 'Daily(zone="Europe/Berlin")'),
    WindowKind("monthly", Monthly, 'Monthly(zone="Europe/Berlin")'),
    WindowKind("sessions", Sessions, 'Sessions("30 minutes")'),
    WindowKind("global", Global, "Global()"),
)
