"""Trial of a draft: the records of a job, evaluated for it, and the rows of its table in windows that are tested."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from cutover.adoption.draft import JobDraft, MeasureChoice
from cutover.adoption.evidence import ReadPlan, drop_zone, to_micros_of
from cutover.adoption.filters import Values
from cutover.log.kafka import RawRecord
from cutover.records.reference.run import EvaluatedRecord

_RELATIVE, _NOISE = 1e-9, 1e-12
"""Distance of doubles that are equal, relative to the value, and to the largest value of the column."""

RowKey = tuple[int, tuple[Any, ...]]  # start of the window, microseconds, and key


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReading:
    """Records of some batches of a job, and the rows of its table."""

    plan: ReadPlan
    records: Sequence[Sequence[RawRecord]]  # of each batch, by partition and offset
    rows: Sequence[Values]  # of the table, with its columns


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedRows:
    """Rows of the job's table in the windows that are tested."""

    rows: Mapping[RowKey, Values]  # column -> value
    copies: int  # further rows of a window and key that has one


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Records of the batches, evaluated for one draft without its filter, with measures that its columns may have."""

    draft: JobDraft
    choices: Mapping[str, MeasureChoice]  # name of a measure in the evaluation -> measure
    batches: Sequence[Sequence[EvaluatedRecord]]


def index_rows(trial: Trial, reading: JobReading) -> IndexedRows:
    """Index the rows of a table by window and key; those of a table with a row per record are grouped."""
    draft, plan = trial.draft, reading.plan
    ids = _list_ids(trial) if draft.row_per_record and plan.is_partial else None
    indexed: dict[RowKey, dict[str, Any]] = {}
    copies = 0
    for row in _select_latest(draft, reading.rows):
        moment = row[draft.start_column]
        key = tuple(drop_zone(row[part.column]) for part in draft.key)
        if moment is None or (ids is not None and key[0] not in ids):
            continue
        micros = to_micros_of(moment)
        start = draft.window.assign_windows(micros)[-1].start if draft.row_per_record else micros
        if not is_whole(plan, start):
            continue
        if draft.row_per_record:
            indexed[start, key] = _merge_row(draft, indexed.get((start, key)), row)
        else:
            copies += (start, key) in indexed
            indexed[start, key] = dict(row)
    return IndexedRows(rows=indexed, copies=copies)


def _select_latest(draft: JobDraft, rows: Sequence[Values]) -> Iterable[Values]:
    """Select the newest row of each window and key, if the draft says which column orders them."""
    if draft.latest_by is None:
        return rows
    newest: dict[tuple[Any, ...], Values] = {}
    for row in rows:
        key = row[draft.start_column], *(row[part.column] for part in draft.key)
        if key not in newest or row[draft.latest_by] > newest[key][draft.latest_by]:
            newest[key] = row
    return newest.values()


def _list_ids(trial: Trial) -> set[Any]:
    (part,) = trial.draft.key
    return {record.parsed.values[part.field] for batch in trial.batches for record in batch if record.reason is None}


def _merge_row(draft: JobDraft, merged: Mapping[str, Any] | None, row: Values) -> dict[str, Any]:
    """Merge a row into those of its record: the number of rows, and the largest value of each column."""
    result = dict(merged or {})
    for column, choice in draft.measures.items():
        value = (result.get(column) or 0) + 1 if choice.expression is None else row[column]
        known = result.get(column)
        is_larger = choice.expression is None or known is None or (value is not None and value > known)
        result[column] = value if is_larger else known
    return result


def is_whole(plan: ReadPlan, start: int) -> bool:
    """Return whether all records of a window that starts at a time were read."""
    return plan.whole_from is None or start >= plan.whole_from


def find_noise(values: Iterable[Any]) -> float:
    """Find the distance from 0 that is noise in doubles of a column."""
    sizes = [abs(value) for value in values if isinstance(value, float) and math.isfinite(value)]
    return max(sizes, default=0.0) * _NOISE


def is_equal(expected: Any, actual: Any, noise: float) -> bool:
    """Return whether two values are equal; doubles may differ in their last digits, since Spark adds in any order."""
    if expected is None or actual is None:
        return expected is actual
    numbers = (int, float, Decimal)
    if isinstance(actual, bool) or not isinstance(actual, numbers):
        return bool(drop_zone(expected) == actual)
    if isinstance(expected, bool | str) or not (isinstance(expected, numbers) or hasattr(expected, "__float__")):
        return False
    if isinstance(actual, float) or not isinstance(expected, int | Decimal):
        left, right = float(expected), float(actual)
        if isinstance(actual, Decimal):  # it holds the digits of its type
            noise = max(noise, 0.5 * 10.0 ** int(actual.as_tuple().exponent) * (1 + _RELATIVE))
        return (math.isnan(left) and math.isnan(right)) or math.isclose(left, right, rel_tol=_RELATIVE, abs_tol=noise)
    return bool(expected == actual)
