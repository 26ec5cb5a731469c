"""Conversion of times to and from microseconds since 1970 in UTC, the representation in tables."""

from datetime import UTC, date, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST = "9999-12-31T23:59:59Z"
_MICROSECOND = timedelta(microseconds=1)
_YEARS_OF_CYCLE, _DAYS_OF_CYCLE = 400, 146_097  # after which the Gregorian calendar repeats


def to_micros(moment: datetime) -> int:
    """Convert a datetime to microseconds since 1970, exactly; UTC if it has no time zone."""
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // _MICROSECOND


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
