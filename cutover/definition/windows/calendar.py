"""Windows of a calendar: they begin when the clock on the wall of a zone shows a time of certain days.

A time that the clock skips is read by the clock as it was before the change: midnight, skipped from 00:00 to 01:00, is
01:00, the moment of the change; 02:30, skipped from 02:00 to 03:00, is 03:30. Of a time that it shows twice the first
counts. Python and Spark read the clock alike.
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


def _is_zone(name: object) -> bool:
    """Return whether Python and Java know a zone by this name, as the same one; short names mean others to each."""
    if not isinstance(name, str) or not ("/" in name or name == "UTC") or name.startswith(("posix/", "right/")):
        return False
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class CalendarWindows(AlignedWindowFn):
    """What windows of a calendar share; a kind says on which days they begin, for Python and for Spark."""

    zone: str  # a name of the IANA time zone database, such as `Europe/Berlin`
    offset: str = field(default="0 hours", kw_only=True)  # after midnight, by the clock on the wall; less than a day

    def __post_init__(self) -> None:
        kind = type(self).__name__
        if not _is_zone(self.zone):
            got = self.zone if isinstance(self.zone, str) else repr(self.zone)
            msg = f"Window `{kind}`: zone: expected a name such as `Europe/Berlin` or `UTC`, got `{got[:80]}`."
            raise DefinitionError(msg)
        if self.offset_micros >= MICROSECONDS["day"]:
            msg = f"Window `{kind}`: offset: expected less than a day, got `{self.offset}`."
            raise DefinitionError(msg)

    @property
    def offset_micros(self) -> int:
        """How long after midnight a window begins, microseconds by the clock on the wall."""
        return parse_duration(self.offset, of="window.offset")

    @abstractmethod
    def first_days(self, near: date) -> Iterator[date]:
        """Yield the days on which windows begin, ascending: those around a date, two before and two after it."""

    @abstractmethod
    def first_days_sql(self, wall: str) -> Iterator[str]:
        """Yield the same in Spark SQL: timestamps at midnight, from the time (timestamp) on the wall."""

    def intervals(self, event_micros: int) -> tuple[Interval, ...]:
        """At most one: none on a date that the zone left out."""
        near = from_micros(event_micros).astimezone(ZoneInfo(self.zone)).date()
        found = (Interval(*bounds) for bounds in pairwise(map(self._start, self.first_days(near))))
        return tuple(one for one in found if one.start <= event_micros < one.end)

    def starts_sql(self, event: str) -> WindowSql:
        """Take the newest candidate that is not after the event; candidates are the days around it."""
        starts = ", ".join(f"IF({start} <= {event}, {start}, NULL)" for start in self._starts_sql(event))
        return WindowSql(start=f"greatest({starts})")

    def end_sql(self, start: str, event: str) -> str:  # noqa: ARG002 -- every window's signature
        """Take the oldest candidate for a start that lies after the event: the next day or month begins there."""
        return f"least({', '.join(f'IF({start} > {event}, {start}, NULL)' for start in self._starts_sql(event))})"

    def following(self, start: int) -> int:
        """Microseconds: windows of a calendar leave no gap, so it is this one's end."""
        return self.intervals(start)[0].end

    def day(self, named: date) -> Interval:
        """Return a date in the zone, from the offset to the offset; empty where the zone left that date out."""
        return Interval(self._start(named), self._start(named + timedelta(days=1)))

    def _start(self, day: date) -> int:
        # `fold=0`: of a time that is shown twice the first; one that is skipped by the clock before the change.
        wall = datetime.combine(day, time()) + self.offset_micros * _MICROSECOND
        return to_micros(wall.replace(tzinfo=ZoneInfo(self.zone)))

    def _starts_sql(self, event: str) -> list[str]:
        wall = f"from_utc_timestamp(timestamp_micros({event}), '{self.zone}')"
        return [
            f"unix_micros(to_utc_timestamp(timestamp_micros(unix_micros({midnight}) + {self.offset_micros}L),"
            f" '{self.zone}'))"
            for midnight in self.first_days_sql(wall)
        ]


_LONGEST_DAY = 49 * MICROSECONDS["hour"]  # of a zone that went through the same date twice
_DAYS_NEAR = range(-2, 3)  # of a date: its day begins less than a day after midnight, and a zone may skip a date


@dataclass(frozen=True, slots=True)
class Daily(CalendarWindows):
    """Days as a clock on the wall counts them: 23 or 25 hours long where the clock is changed.

    A day begins when that clock shows `offset` after midnight. A date that a zone left out has no window.
    """

    @property
    def reach(self) -> int:
        """How long after an event time its day ends at most."""
        return _LONGEST_DAY

    def first_days(self, near: date) -> Iterator[date]:
        """Yield the days around a date."""
        return (near + timedelta(days=days) for days in _DAYS_NEAR)

    def first_days_sql(self, wall: str) -> Iterator[str]:
        """Yield the same midnights in Spark SQL."""
        midnight = f"unix_micros(date_trunc('DAY', {wall}))"
        return (f"timestamp_micros({midnight} + {days * MICROSECONDS['day']}L)" for days in _DAYS_NEAR)

    def describe(self) -> list[str | int]:
        """Kind, zone and offset in microseconds; hashed into the result fingerprint."""
        return ["daily", self.zone, self.offset_micros]
