"""Which windows one run of the batch DAG computes: a pure function of its parameters and of how it was started."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from cutover.errors import DefinitionError

DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class RunRange:
    """Event time `[start, end)` in UTC; both None: every window that is dirty at the cut."""

    start: datetime | None = None
    end: datetime | None = None


def requested_range(params: Mapping[str, object], *, run_type: str, logical_date: datetime | None) -> RunRange:
    """Return the range of one run.

    Args:
        params: `from` and `to` (ISO 8601; without a zone they are UTC; either may be left out), or `day` (a UTC day).
        run_type: Airflow's: a `backfill` takes the UTC day of its date, whatever `params` say.
        logical_date: The run's date; None for a run that was started without one.

    Raises:
        DefinitionError: A value does not parse, `day` stands beside `from` or `to`, or the range is empty.
    """
    if run_type == "backfill" and logical_date is not None:
        return _day(logical_date.astimezone(UTC).date())
    day, start, end = (_text(params, name) for name in ("day", "from", "to"))
    if day and (start or end):
        msg = f"Run of the batch path: expected `day`, or `from` and `to`, got both: day={day}, from={start}, to={end}."
        raise DefinitionError(msg)
    if day:
        return _day(_parse_day(day))
    found = RunRange(_parse_time("from", start), _parse_time("to", end))
    if found.start and found.end and found.start >= found.end:
        msg = f"Run of the batch path: expected from < to, got from={start}, to={end}.\nHint: `to` is exclusive."
        raise DefinitionError(msg)
    return found


def _text(params: Mapping[str, object], name: str) -> str | None:
    value = params.get(name)
    return str(value).strip() or None if value is not None else None


def _day(day: date) -> RunRange:
    start = datetime.combine(day, time(), tzinfo=UTC)
    return RunRange(start, start + DAY)


def _parse_day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        msg = f"Run of the batch path, parameter `day`: expected a date such as 2013-02-08, got {text!r}."
        raise DefinitionError(msg) from error


def _parse_time(name: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        msg = f"Run of the batch path, parameter `{name}`: expected a time such as 2013-02-08T00:00Z, got {text!r}."
        raise DefinitionError(msg) from error
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
