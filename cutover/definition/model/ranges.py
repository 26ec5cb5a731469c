"""Ranges of event time as people enter them: a date is a day as the pipeline's windows count days."""

from datetime import UTC, date, datetime, timedelta

from cutover.definition.windows.window_fn import (
    EARLIEST,
    LATEST,
    AlignedWindowFn,
    Interval,
    WindowFn,
    select_first_window,
    select_last_window,
)
from cutover.errors import DefinitionError
from cutover.timestamps import from_micros

_MICROSECOND = timedelta(microseconds=1)


def parse_range_end(text: str, window: WindowFn, *, of: str) -> datetime:
    """Parse one end of a range, as UTC.

    Args:
        text: ISO 8601. A date without a time means the start of that day: in the zone and with the offset of calendar
            windows, otherwise in UTC. A time without a zone is UTC.
        window: The definition's.
        of: What the time belongs to, as the message names it: "`--from`".

    Raises:
        DefinitionError: The text is not a time.
    """
    try:
        return compute_day_range(date.fromisoformat(text), window)[0]
    except ValueError:
        pass
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        msg = f"{of}: expected a time such as `2013-02-08T14:00:00Z` or a date such as `2013-02-08`, got `{text[:80]}`."
        raise DefinitionError(msg) from None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def compute_day_range(compute_day_range: date, window: WindowFn) -> tuple[datetime, datetime]:
    """Return the start and the end of a day in UTC, as the windows count days."""
    interval = window.day_interval(compute_day_range)
    return from_micros(interval.start), from_micros(interval.end)


def extend_to_windows(window: AlignedWindowFn, event_range: tuple[int, int]) -> Interval:
    """Extend a range to whole windows: from the start of the first window that it touches to the end of the last.

    Args:
        window: The definition's.
        event_range: `[start, end)`, microseconds.

    Raises:
        DefinitionError: The range is outside the years that event time can have.
    """
    start, end = max(event_range[0], EARLIEST), min(event_range[1], LATEST)
    if start >= end:
        msg = "Range of windows: expected one between the years 1000 and 9000, got another."
        raise DefinitionError(msg)
    return Interval(select_first_window(window, start).start, select_last_window(window, end - 1).end)
