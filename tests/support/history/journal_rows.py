"""Rows of control tables for tests: fields without a given value get a neutral one of their type."""

from dataclasses import MISSING, fields
from datetime import UTC, datetime
from enum import StrEnum
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.lake.journal import Journal, JournalRow
from cutover.lake.journal_rows import GateEvent
from cutover.pipeline_lake import PipelineLake

RowT = TypeVar("RowT", bound=JournalRow)
AT = datetime(2026, 1, 1, tzinfo=UTC)
_NEUTRAL: dict[Any, Any] = {str: "", int: 0, bool: False, datetime: AT}
_JSON = {"checks": "{}", "violations": "[]", "result": "{}"}


def make_row(row_type: type[RowT], **values: Any) -> RowT:
    """Make a row of a type; optional fields that are not given are None."""
    hints = get_type_hints(row_type)
    neutral = {
        field.name: _JSON.get(field.name, _make_neutral(hints[field.name]))
        for field in fields(row_type)
        if field.default is MISSING
    }
    return row_type(**neutral | {"pipeline": "p"} | values)


def _make_neutral(annotation: Any) -> Any:
    arguments = get_args(annotation)
    if NoneType in arguments:
        return None
    if get_origin(annotation) is Literal:
        return arguments[0]
    if get_origin(annotation) is tuple:
        return ()
    return next(iter(annotation)) if issubclass(annotation, StrEnum) else _NEUTRAL[annotation]


def record_stage(lake: PipelineLake, stage: str, **values: Any) -> int:
    """Append a move to a stage as if it had been allowed, and return its sequence."""
    columns = {
        "pipeline": lake.name,
        "result_fingerprint": result_fingerprint(lake.pipeline),
        "stream_version": 0,
    }
    columns |= {"event": "advanced", "stage": stage, "who": "test", "why": "test", "at": datetime.now(UTC)}
    return Journal(lake.settings, lake.name, GateEvent).append(make_row(GateEvent, **columns | values))
