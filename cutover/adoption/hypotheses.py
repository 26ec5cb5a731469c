"""Hypotheses about what a job computes, each computed over the log in plain Python and compared with its table.

A hypothesis is a draft with one choice of what cannot be read anywhere: the event time, the form of parsing, the output
mode, the id, the filter. The measure of each column is found separately: the one that reproduces most of its cells.
What is chosen is computed again as a whole, and its figures alone are reported. Windows that may have records outside
the range that was read are not compared.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, TypeVar

from cutover.adoption.draft import JobDraft, MeasureChoice
from cutover.adoption.evidence import ReadPlan, drop_zone, to_micros_of
from cutover.adoption.filters import NO_FILTER, Filter, Values, combine_filters, list_filters
from cutover.definition.measures.kinds import Count
from cutover.log.kafka import RawRecord
from cutover.records.reference.lookups import no_dimensions
from cutover.records.reference.run import (
    CountedRow,
    EvaluatedRecord,
    Group,
    compute_measures,
    evaluate_records,
    group_records,
)

MAX_MATCHED = 12
"""Number of equally good filters up to which all are matched by their measures."""

MAX_REFINED = 6
"""Number of equally good filters up to which each is tried together with every other one."""

EXAMPLES = 5
"""Differing cells that are named."""

_RELATIVE, _NOISE = 1e-9, 1e-12
"""Distance of doubles that are equal, relative to the value, and to the largest value of the column."""

Item = TypeVar("Item")
RowKey = tuple[int, tuple[Any, ...]]  # start of the window, microseconds, and key
Groups = Mapping[Group, Sequence[CountedRow]]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """How well one hypothesis reproduces the table."""

    draft: JobDraft
    rows: int  # of the table or of the hypothesis
    measures: Mapping[str, tuple[MeasureChoice, ...]]  # column -> those that reproduce most of its cells, all equal
    equal: Mapping[str, int]  # column -> cells that its best measures reproduce

    @property
    def share(self) -> float:
        """Share of the cells that are equal."""
        return sum(self.equal.values()) / (self.rows * len(self.equal)) if self.rows and self.equal else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CellDifference:
    """Cell that speaks against a definition."""

    window_start: int  # microseconds
    key: tuple[Any, ...]
    column: str
    expected: Any  # by the definition; None also if it has no such row
    actual: Any  # of the table; None also if it has no such row


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftCheck:
    """Comparison of a whole definition with the table of the job."""

    cells: int
    equal_cells: int
    windows: int  # distinct starts
    records: int
    batches: int
    differences: tuple[CellDifference, ...]  # at most `EXAMPLES`

    @property
    def is_exact(self) -> bool:
        """Return whether every cell is reproduced."""
        return 0 < self.cells == self.equal_cells


def evaluate_draft(draft: JobDraft, choices: Sequence[MeasureChoice], reading: JobReading) -> Trial:
    """Parse and evaluate all records for a draft without its filter."""
    named = {f"m{number}": choice for number, choice in enumerate(choices)}
    measures = {name: choice.make() for name, choice in named.items()} or {"m0": Count()}
    pipeline = replace(draft, where=None).make_pipeline(measures)
    records = [record for batch in reading.records for record in batch]
    evaluated = iter(evaluate_records(pipeline, records, no_dimensions))
    return Trial(draft=draft, choices=named, batches=[[next(evaluated) for _ in batch] for batch in reading.records])


def find_matches(
    trials: Sequence[Trial], variants: Callable[[JobDraft], Sequence[Trial]], reading: JobReading, *, is_filtered: bool
) -> tuple[list[Match], int]:
    """Try all drafts with all filters; return those that reproduce most of the table, and how many were tried.

    First by the rows that a filter leaves and by their number, then the best ones by all measures. If none leaves the
    rows of the table, the best filters are tried again, each together with every other one.

    Args:
        trials: The drafts, evaluated.
        variants: Evaluates a draft with each type that its numbers may have, and all measures.
        reading: What was read.
        is_filtered: The drafts have a filter already, which the caller states.
    """
    scored: list[tuple[int, Trial, Filter]] = []
    for trial in trials:
        table = index_rows(trial, reading)
        records = [record.parsed.values for batch in trial.batches for record in batch if record.reason is None]
        filters = [NO_FILTER] if is_filtered else [NO_FILTER, *list_filters(trial.draft, records)]
        found = [(_score(trial, condition, table, reading.plan), condition) for condition in filters]
        best = _keep_best(found, lambda pair: -pair[0])
        if best[0][0] and len(best) <= MAX_REFINED and not is_filtered:
            refined = {both.sql: both for _, first in best for both in combine_filters(first, filters)}
            found += [(_score(trial, condition, table, reading.plan), condition) for condition in refined.values()]
        scored += [(score, trial, condition) for score, condition in found]
    closest = _keep_best(scored, lambda entry: -entry[0])
    closest.sort(key=lambda entry: (entry[2].sql is not None, len(entry[2].sql or "")))
    matches = []
    evaluated: dict[tuple[str, str, str | None], Sequence[Trial]] = {}
    for _, trial, condition in closest[:MAX_MATCHED]:
        name = trial.draft.event_time, trial.draft.parse, trial.draft.record_id
        evaluated[name] = evaluated.get(name) or variants(trial.draft)
        same_mode = [replace(variant, draft=_with_rules(variant.draft, trial.draft)) for variant in evaluated[name]]
        matches.append(_match(same_mode, condition, index_rows(trial, reading), reading.plan))
    return _keep_best(matches, lambda match: match.share), len(scored)


def _with_rules(draft: JobDraft, other: JobDraft) -> JobDraft:
    return replace(
        draft,
        output_mode=other.output_mode,
        single_watermark=other.single_watermark,
        record_id=other.record_id,
        latest_by=other.latest_by,
        seen=other.seen,
    )


def _keep_best(items: Sequence[Item], rate: Callable[[Item], float]) -> list[Item]:
    highest = max(map(rate, items), default=0.0)
    return [item for item in items if rate(item) == highest]


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


def _is_written(draft: JobDraft, plan: ReadPlan, end: int) -> bool:
    """Return whether the job has written a window: in append mode once it is closed, and not before."""
    return draft.output_mode != "append" or draft.row_per_record or end <= plan.closed_until


def _group(trial: Trial, condition: Filter, plan: ReadPlan) -> Groups:
    """Group the records that pass a filter, of the windows that are tested, as the job would."""
    draft = trial.draft
    epochs = (
        (
            [record for record in records if record.reason is None and condition.passes(record.parsed.values)],
            None if draft.keeps_late else batch.watermark if draft.single_watermark else batch.judged_by,
        )
        for batch, records in zip(plan.batches, trial.batches, strict=True)
    )
    groups = group_records(draft.make_pipeline({"rows": Count()}), epochs)
    return {
        group: rows for group, rows in groups.items() if is_whole(plan, group[0]) and _is_written(draft, plan, group[1])
    }


def _index_groups(groups: Groups) -> dict[RowKey, Group]:
    return {(start, tuple(map(drop_zone, key))): (start, end, key) for start, end, key in groups}


def _score(trial: Trial, condition: Filter, table: IndexedRows, plan: ReadPlan) -> int:
    """Count the rows that only one side has, and those whose number of records no column of the table has."""
    draft, groups = trial.draft, _group(trial, condition, plan)
    index = _index_groups(groups)
    whole = {"BIGINT", "INTEGER", "HUGEINT"}
    columns = [name for name, kind in draft.value_columns.items() if kind in whole and not draft.row_per_record]
    columns += [name for name, choice in draft.measures.items() if choice.expression is None]
    differing = [
        sum(table.rows[key][column] != len(groups[index[key]]) for key in index.keys() & table.rows.keys())
        for column in columns
    ]
    return len(index.keys() ^ table.rows.keys()) + table.copies + min(differing, default=0)


def _match(variants: Sequence[Trial], condition: Filter, table: IndexedRows, plan: ReadPlan) -> Match:
    """Count for each column the cells that each measure reproduces, with each type that numbers may have."""
    draft = variants[0].draft
    columns = list(draft.measures if draft.row_per_record else draft.value_columns)
    noise = {column: _find_noise(row[column] for row in table.rows.values()) for column in columns}
    counts: dict[str, dict[MeasureChoice, int]] = {column: {} for column in columns}
    rows = 0
    for trial in variants:
        groups = _group(trial, condition, plan)
        index = _index_groups(groups)
        pipeline = trial.draft.make_pipeline({name: choice.make() for name, choice in trial.choices.items()})
        computed = compute_measures(pipeline, groups)
        shared = index.keys() & table.rows.keys()
        rows = len(index.keys() | table.rows.keys()) + table.copies
        for column in columns:
            for name, choice in trial.choices.items():
                if draft.measures.get(column, choice) == choice:
                    equal = (is_equal(computed[index[k]][name], table.rows[k][column], noise[column]) for k in shared)
                    counts[column][choice] = sum(equal)
    most = {column: max(counts[column].values(), default=0) for column in columns}
    return Match(
        draft=draft if condition.sql is None else replace(draft, where=condition.sql),
        rows=rows,
        measures={
            column: tuple(choice for choice, count in counts[column].items() if count == most[column])
            for column in columns
        },
        equal=most,
    )


def verify(draft: JobDraft, reading: JobReading) -> DraftCheck:
    """Compute a whole definition over the records that were read, and compare each cell with the table."""
    pipeline = draft.make_pipeline()
    records = [record for batch in reading.records for record in batch]
    evaluated = iter(evaluate_records(pipeline, records, no_dimensions))
    batches = [[next(evaluated) for _ in batch] for batch in reading.records]
    trial = Trial(draft=draft, choices={}, batches=batches)
    passing = replace(
        trial, batches=[[r for r in batch if r.evaluated is not None and r.evaluated.passes] for batch in batches]
    )
    table, groups = index_rows(trial, reading), _group(passing, NO_FILTER, reading.plan)
    index, computed = _index_groups(groups), compute_measures(pipeline, groups)
    differences = list(_list_differences(draft, table, index, computed))
    rows = index.keys() | table.rows.keys()
    cells = (len(rows) + table.copies) * len(draft.measures)
    shown = sorted(differences, key=lambda cell: (cell.window_start, str(cell.key), cell.column))
    return DraftCheck(
        cells=cells,
        equal_cells=cells - len(differences) - table.copies * len(draft.measures),
        windows=len({start for start, _ in rows}),
        records=len(records),
        batches=len(batches),
        differences=tuple(shown[:EXAMPLES]),
    )


def _list_differences(
    draft: JobDraft, table: IndexedRows, index: Mapping[RowKey, Group], computed: Mapping[Group, Values]
) -> Iterator[CellDifference]:
    for column in draft.measures:
        name = draft.name_measure(column)
        noise = _find_noise(row[column] for row in table.rows.values())
        for key in index.keys() | table.rows.keys():
            expected = computed[index[key]][name] if key in index else None
            actual = table.rows[key][column] if key in table.rows else None
            if key in index and key in table.rows and is_equal(expected, actual, noise):
                continue
            start, parts = key
            value = drop_zone(expected)
            yield CellDifference(window_start=start, key=parts, column=column, expected=value, actual=actual)


def _find_noise(values: Iterable[Any]) -> float:
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
        return (math.isnan(left) and math.isnan(right)) or math.isclose(left, right, rel_tol=_RELATIVE, abs_tol=noise)
    return bool(expected == actual)
