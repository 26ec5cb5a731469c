"""Ranges of event time as people give them: a date is a day as the windows count it; a range takes what it touches."""

from datetime import UTC, date, datetime, timedelta

from cutover.definition.windows.window_fn import EARLIEST, LATEST, AlignedWindowFn, Interval, WindowFn, newest, oldest
from cutover.errors import DefinitionError
from cutover.timestamps import from_micros

_MICROSECOND = timedelta(microseconds=1)


def moment(text: str, window: WindowFn, *, of: str) -> datetime:
    """Read one end of a range, as UTC.

    Args:
        text: ISO 8601. A date without a time is where that day begins: in the zone of calendar windows and with
            their offset, else in UTC. A time without a zone is UTC.
        window: The definition's.
        of: What the time is of, as the message names it: "`--from`".

    Raises:
        DefinitionError: It is no time.
    """
    try:
        return day(date.fromisoformat(text), window)[0]
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        msg = f"{of}: expected a time such as `2013-02-08T14:00:00Z` or a date such as `2013-02-08`, got `{text[:80]}`."
        raise DefinitionError(msg) from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def day(named: date, window: WindowFn) -> tuple[datetime, datetime]:
    """Return where a day begins and ends in UTC: as the windows count days."""
    found = window.day(named)
    return from_micros(found.start), from_micros(found.end)


def find_touched_range(window: AlignedWindowFn, wanted: tuple[int, int]) -> Interval:
    """Return the range from the start of the first window that a range touches to the end of the last one.

    Args:
        window: The definition's.
        wanted: `[start, end)`, microseconds.

    Raises:
        DefinitionError: The range lies where no event time can be.
    """
    start, end = max(wanted[0], EARLIEST), min(wanted[1], LATEST)
    if start >= end:
        msg = "Range of windows: expected one between the years 1000 and 9000, got another."
        raise DefinitionError(msg)
    return Interval(oldest(window, start).start, newest(window, end - 1).end)
