"""Calendar windows of a time zone: they start at a local time of certain days, or of a day of each month.

A local time that a clock change skips is interpreted with the UTC offset before the change: midnight, skipped from
00:00 to 01:00, is 01:00, the moment of the change; 02:30, skipped from 02:00 to 03:00, is 03:30. Of a local time that
occurs twice, the first occurrence counts. Python and Spark agree on both.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cutover.definition.windows.window_fn import AlignedWindowFn, Interval, WindowSql
from cutover.durations import MICROSECONDS, parse_duration
from cutover.errors import DefinitionError
from cutover.timestamps import from_micros, to_micros

_MICROSECOND = timedelta(microseconds=1)

_LONGEST_DAY = 49 * MICROSECONDS["hour"]  # in a zone that repeated a date
_DAYS_NEAR = range(-2, 3)  # around a date: its day starts less than a day after midnight, and a zone may skip a date

_LAST_FIRST_DAY = 28  # every month has one
_LONGEST = 33 * MICROSECONDS["day"]  # 31 days, and a zone that repeated a date
_MONTHS_NEAR = range(-2, 3)


def _is_zone(name: object) -> bool:
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
        if not _is_zone(self.zone):
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
