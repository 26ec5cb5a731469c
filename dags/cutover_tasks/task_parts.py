"""Parts that tasks share: definition and range of a run, errors of Cutover as failed tasks, texts of `approve`."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.window_fn import WindowFn, parse_range_end
from cutover.definition.windows.window_fn import compute_day_range as day_of
from cutover.errors import CutoverError, DefinitionError
from cutover.settings import Settings

log = logging.getLogger("airflow.task")


def load_task_definition(settings: Settings, name: str, *, running: bool = False) -> Pipeline:
    """Return the effective definition of a pipeline; log a warning if it is not the one in the file.

    Args:
        settings: Settings of the installation.
        name: Name of the pipeline.
        running: Prefer the definition of a running driver to the one in the file.

    Raises:
        DefinitionError: The file is missing or does not load, and no definition is recorded.
    """
    from cutover.lake.shown_definition import resolve_definition  # noqa: PLC0415 -- brings duckdb and deltalake: only where a task runs

    definition = resolve_definition(settings, name, running=running)
    if definition.note is not None:
        log.warning("%s", definition.note)
    return definition.pipeline


@contextmanager
def fail_without_retries() -> Iterator[None]:
    """Fail the task without retries on an error that a person has to resolve (exit code 2 of the command line).

    Raises:
        AirflowFailException: In place of a `CutoverError`, with its message, hint and runbook.
    """
    try:
        yield
    except CutoverError as error:
        log.error("%s", error)  # noqa: TRY400 -- the message is written for a person; a traceback would hide it
        raise AirflowFailException(str(error)) from None


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


_NO_REASON = "approved in Airflow"

NOT_MADE = "withdrawn by Airflow: no task of the run has made it"
"""Reason that is recorded with a withdrawn proposal."""


def format_cell(text: str) -> str:
    """Format a text as one cell of a Markdown table, with all markup escaped."""
    return "".join(f"\\{c}" if c in "|\\`*_<>[]" else c for c in " ".join(text.split()))


def parse_person(answer: Mapping[str, Any] | None) -> str:
    """Return the Airflow user who answered as `airflow:<name>`; empty if no one did, or the task was only marked."""
    user = (answer or {}).get("responded_by_user") or {}
    names = (_strip_invisible(user.get(field)) for field in ("name", "id"))
    name = next(filter(None, names), "")
    return f"airflow:{name}" if name else ""


def _strip_invisible(text: object) -> str:
    """Remove control characters and surplus blanks of a name; a name that consists only of them becomes empty."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(text or "")).split())


def parse_reason(answer: Mapping[str, Any] | None) -> str:
    """Return the reason that a person entered, or a default text."""
    return str(((answer or {}).get("params_input") or {}).get("why") or "").strip() or _NO_REASON
