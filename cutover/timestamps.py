"""Times as the tables hold them: whole microseconds since 1970 in UTC. The one place that converts."""

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST = "9999-12-31T23:59:59Z"
_MICROSECOND = timedelta(microseconds=1)


def to_micros(moment: datetime) -> int:
    """Return a moment in microseconds since 1970, exactly; one without a zone is UTC."""
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // _MICROSECOND


def parse_micros(iso: str) -> int:
    """Return an ISO 8601 time in microseconds since 1970, exactly; one without a zone is UTC.

    Raises:
        ValueError: The text is no such time.
    """
    return to_micros(datetime.fromisoformat(iso))


def from_micros(micros: int) -> datetime:
    """UTC; the inverse of `to_micros`, exact to the microsecond.

    Raises:
        OverflowError: It lies before the year 1 or behind the year 9999.
    """
    return EPOCH + micros * _MICROSECOND


def format_micros(micros: int | None) -> str | None:
    """Return ISO 8601 in UTC (`2013-03-10T02:30:00Z`); what lies behind the year 9999 as its last second."""
    if micros is None:
        return None
    try:
        return from_micros(micros).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return LAST if micros > 0 else "0001-01-01T00:00:00Z"


def format_moment(at: datetime) -> str:
    """Return a time in UTC as one types it: `2013-03-10 02:30`, seconds and their fractions only where it has any."""
    text = at.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ")
    return text.rstrip("0") if at.microsecond else text.removesuffix(":00")
