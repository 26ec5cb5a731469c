"""Times and durations in microseconds, the representation in tables: times since 1970 in UTC, and their texts."""

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any

from cutover.counts import count_noun
from cutover.errors import DefinitionError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST = "9999-12-31T23:59:59Z"
_MICROSECOND = timedelta(microseconds=1)
_YEARS_OF_CYCLE, _DAYS_OF_CYCLE = 400, 146_097  # after which the Gregorian calendar repeats


def to_micros(moment: datetime) -> int:
    """Convert a datetime to microseconds since 1970, exactly; UTC if it has no time zone."""
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // _MICROSECOND


def to_micros_of(value: date) -> int:
    """Convert a time, or the midnight of a day, in UTC to microseconds."""
    return to_micros(value if isinstance(value, datetime) else datetime(value.year, value.month, value.day, tzinfo=UTC))


def parse_micros(iso: str) -> int:
    """Parse an ISO 8601 time to microseconds since 1970, exactly; UTC if it has no time zone.

    Raises:
        ValueError: The text is not an ISO 8601 time.
    """
    return to_micros(datetime.fromisoformat(iso))


def from_micros(micros: int) -> datetime:
    """Convert microseconds since 1970 to a datetime in UTC; the exact inverse of `to_micros`.

    Raises:
        OverflowError: The time is before year 1 or after year 9999.
    """
    return EPOCH + micros * _MICROSECOND


def count_days(year: int, month: int, day: int) -> int:
    """Count the days from 1970 to a day of the Gregorian calendar, in any year.

    Raises:
        ValueError: The day does not exist.
    """
    cycles, year_of_cycle = divmod(year, _YEARS_OF_CYCLE)
    like_year = year_of_cycle + _YEARS_OF_CYCLE  # Python's years begin with 1
    return date(like_year, month, day).toordinal() - EPOCH.toordinal() + (cycles - 1) * _DAYS_OF_CYCLE


def drop_zone(value: Any) -> Any:
    """Return a time in UTC without its zone; another value as it is."""
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def format_micros(micros: int | None) -> str | None:
    """Format as ISO 8601 in UTC (`2013-03-10T02:30:00Z`); times after year 9999 as its last second."""
    if micros is None:
        return None
    try:
        return from_micros(micros).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return LAST if micros > 0 else "0001-01-01T00:00:00Z"


def format_moment(at: datetime) -> str:
    """Format a time in UTC for people: `2013-03-10 02:30`, with seconds and fractions only if they are not zero."""
    text = at.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ")
    return text.rstrip("0") if at.microsecond else text.removesuffix(":00")


MICROSECONDS = {
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
}
LONGEST_DAYS = 36_500
"""A hundred years; added to the latest valid event time, the result is still valid in every engine."""

_SHORT = {"ms": "millisecond", "s": "second", "min": "minute", "h": "hour", "d": "day"}
_PART = r"([0-9]{1,18})\s*((?:millisecond|second|minute|hour|day)s?|ms|s|min|h|d)"
_TEXT = re.compile(rf"^\s*{_PART}(?:\s+{_PART})*\s*$")


def parse_duration(text: object, *, of: str) -> int:
    """Parse a text such as `30 minutes` into microseconds.

    Args:
        text: Integers with units, in milliseconds, seconds, minutes, hours or days, or as reports print them,
            `1 d 2 h`, `30 min`. Not validated before, since it comes from a definition.
        of: Name of the field, for the error.

    Raises:
        DefinitionError: The text does not have this form, or the duration is longer than a hundred years.
    """
    micros = _compute_micros(text) if isinstance(text, str) else None
    if micros is None:
        msg = f"`{of}`: expected a whole number and a unit, such as `30 minutes`, got `{str(text)[:80]}`."
        raise DefinitionError(msg)
    if micros > LONGEST_DAYS * MICROSECONDS["day"]:
        msg = f"`{of}`: expected at most {LONGEST_DAYS} days, got `{str(text)[:80]}`."
        raise DefinitionError(msg)
    return micros


@lru_cache(maxsize=1_024)  # folds in plain Python ask for each record
def _compute_micros(text: str) -> int | None:
    """Compute the microseconds of a text; None: it does not have the form of a duration."""
    match = _TEXT.match(text)
    if match is None:
        return None
    return sum(
        int(count) * MICROSECONDS[_SHORT.get(unit) or unit.removesuffix("s")]
        for count, unit in re.findall(_PART, match[0])
    )


def format_duration(micros: int) -> str:
    """Format a duration for `parse_duration`, in the largest unit of which it is a multiple."""
    units = sorted(MICROSECONDS.items(), key=lambda unit: -unit[1])
    unit, size = next((unit for unit in units if micros and micros % unit[1] == 0), ("second", MICROSECONDS["second"]))
    return count_noun(micros // size, unit).replace(",", "")


def shorten_duration(micros: int) -> str:
    """Format a duration exactly in the short form of reports, which `parse_duration` accepts: `1 d 2 h`, `30 min`."""
    parts, remainder = [], micros
    for short, unit in reversed(_SHORT.items()):
        count, remainder = divmod(remainder, MICROSECONDS[unit])
        if count:
            parts.append(f"{count} {short}")
    return " ".join(parts) or "0 s"


def describe_length(seconds: float, *, space: str = " ") -> str:
    """Describe a length of time for people, in its two largest units: `1 d 2 h`, `30 min`, `2.5 s`, `4 ms`.

    Args:
        seconds: Shown with tenths below 10 s, and in milliseconds below 0.05 s.
        space: Separator between a number and its unit.
    """
    if 0 < abs(seconds) < 0.05:  # noqa: PLR2004 -- rounds to less than a tenth of a second
        return f"{seconds * 1_000:.3g}{space}ms"
    if abs(seconds) < 10:  # noqa: PLR2004 -- below it, tenths matter
        return f"{seconds:.1f}".removesuffix(".0") + f"{space}s"
    parts, remainder = [], round(abs(seconds))
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        amount, remainder = divmod(remainder, size)
        if amount:
            parts.append(f"{amount}{space}{unit}")
    return f"{'-' if seconds < 0 else ''}{' '.join(parts[:2])}"
