"""Calendar months of a time zone, such as billing periods, which can start on another day or hour."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date

from cutover.definition.windows.calendar import CalendarWindows
from cutover.durations import MICROSECONDS
from cutover.errors import DefinitionError

_LAST_FIRST_DAY = 28  # every month has one
_LONGEST = 33 * MICROSECONDS["day"]  # 31 days, and a zone that repeated a date
_MONTHS_NEAR = range(-2, 3)


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
