"""Range of event time that one run of the batch DAG computes: a pure function of run type, date and parameters."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime

from cutover.definition.model.ranges import compute_day_range as day_of
from cutover.definition.model.ranges import parse_range_end
from cutover.definition.windows.window_fn import WindowFn
from cutover.errors import DefinitionError


@dataclass(frozen=True, slots=True)
class RunRange:
    """Range of event time `[start, end)` in UTC; both None: every window that is dirty at the cut."""

    start: datetime | None = None
    end: datetime | None = None


def requested_range(
    params: Mapping[str, object], window: WindowFn, *, run_type: str, logical_date: datetime | None
) -> RunRange:
    """Return the day of a backfill, or the range in the parameters of a run; unbounded if there is none.

    Args:
        params: `from` and `to` (dates, or times in ISO 8601, UTC without a zone; either may be left out), or `day`.
        window: Window of the definition: a day is one of its daily windows, otherwise a UTC day.
        run_type: Type of the Airflow run: a `backfill` computes the day of its date (in UTC) and ignores `params`.
        logical_date: Date of the run; None if it was triggered without one.

    Raises:
        DefinitionError: A value is invalid, `day` is combined with `from` or `to`, or the range is empty.
    """
    if run_type == "backfill" and logical_date is not None:
        return RunRange(*day_of(logical_date.astimezone(UTC).date(), window))
    day, start, end = (_text(params, name) for name in ("day", "from", "to"))
    if day and (start or end):
        msg = f"Run of the batch path: expected `day`, or `from` and `to`, got both: day={day}, from={start}, to={end}."
        raise DefinitionError(msg)
    if day:
        return RunRange(*day_of(_parse_day(day), window))
    run_range = RunRange(*(_parse_time(name, text, window) for name, text in (("from", start), ("to", end))))
    if run_range.start and run_range.end and run_range.start >= run_range.end:
        msg = f"Run of the batch path: expected from < to, got from={start}, to={end}.\nHint: `to` is exclusive."
        raise DefinitionError(msg)
    return run_range


def _text(params: Mapping[str, object], name: str) -> str | None:
    value = params.get(name)
    return str(value).strip() or None if value is not None else None


def _parse_day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        msg = f"Run of the batch path, parameter `day`: expected a date such as 2013-02-08, got {text!r}."
        raise DefinitionError(msg) from error


def _parse_time(name: str, text: str | None, window: WindowFn) -> datetime | None:
    return None if text is None else parse_range_end(text, window, of=f"Run of the batch path, parameter `{name}`")
