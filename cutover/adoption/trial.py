"""Trial of a draft: the records of a job, evaluated for it, and the rows of its table in windows that are tested.

Conditional measures, such as `count_if(...)`, are tried for columns that no measure of all records reproduces. The
records are grouped once; for each condition only the values of the records that it selects are merged, and a hypothesis
is given up as soon as more cells differ than for the best one.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache
from typing import Any

from cutover.adoption.draft import Filter, JobDraft, MeasureChoice, Values, list_filters
from cutover.adoption.evidence import ReadPlan
from cutover.definition.measures.kinds import Count
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.topic import Topic
from cutover.definition.windows.window_fn import Interval, merge_intervals
from cutover.log.kafka import RawRecord
from cutover.records.parsing.parsed_record import ParsedRecord
from cutover.records.reference.lookups import no_dimensions
from cutover.records.reference.measures import finish_measure, finish_values, merge_measure, merge_values
from cutover.records.reference.parse import parse_record
from cutover.records.reference.run import (
    EvaluatedRecord,
    Group,
    Twin,
    assign_groups,
    evaluate_parsed_records,
    make_counted_row,
    merge_sessions,
)
from cutover.timestamps import drop_zone, to_micros_of

_RELATIVE, _NOISE = 1e-9, 1e-12
"""Distance of doubles that are equal, relative to the value, and to the largest value of the column."""

_FOREIGN_TIME = "no field of the records has one of its times, as if the job writes when it ran"

RowKey = tuple[int, tuple[Any, ...]]  # start of the window, microseconds, and key


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReading:
    """Records of some batches of a job, and the rows of its table."""

    plan: ReadPlan
    records: Sequence[Sequence[RawRecord]]  # of each batch, by partition and offset
    rows: Sequence[Values]  # of the table, with its columns
    parsed: dict[Topic, dict[tuple[int, int], ParsedRecord]] = field(default_factory=dict, compare=False)
    """Parsed records by partition and offset: drafts of one topic share them."""

    def evaluate(self, pipeline: Pipeline) -> list[EvaluatedRecord]:
        """Evaluate all records for a definition."""
        records = [record for batch in self.records for record in batch]
        parsed = self.parsed.setdefault(pipeline.source, {})
        for record in records:
            if (record.partition, record.offset) not in parsed:
                item = parse_record(record.value, pipeline.source, counts_unknown=False)
                parsed[record.partition, record.offset] = item
        by_record = [parsed[record.partition, record.offset] for record in records]
        return evaluate_parsed_records(pipeline, pipeline, records, by_record, no_dimensions)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedRows:
    """Rows of the job's table in the windows that are tested."""

    rows: Mapping[RowKey, Values]  # column -> value
    copies: int  # further rows of a window and key that has one
    divided: Mapping[tuple[Any, ...], Sequence[Interval]] = field(default_factory=dict)
    """Sessions of a key that the table has in several rows, which are not compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Records of the batches, evaluated for one draft without its filter, with measures that its columns may have."""

    draft: JobDraft
    choices: Mapping[str, MeasureChoice]  # name of a measure in the evaluation -> measure
    records: Sequence[EvaluatedRecord]  # of all batches

    def list_values(self) -> list[Values]:
        """List the fields of the well-formed records."""
        return [record.parsed.values for record in self.records if record.reason is None]


def evaluate_draft(draft: JobDraft, choices: Sequence[MeasureChoice], reading: JobReading) -> Trial:
    """Parse and evaluate all records for a draft; its filter is one that the caller states."""
    named = {f"m{number}": choice for number, choice in enumerate(choices)}
    measures = {name: choice.make() for name, choice in named.items()} or {"m0": Count()}
    return Trial(draft=draft, choices=named, records=reading.evaluate(draft.make_pipeline(measures)))


def omit_foreign_times(trial: Trial, stated: Collection[str], reading: JobReading) -> Trial:
    """Omit columns with times of which no field of the records has one, such as that of the job's last write.

    No hypothesis reproduces a cell of them, so all would be tried.

    Args:
        trial: Of a draft with all columns.
        stated: Columns whose measures the caller states, which are kept.
        reading: What was read.
    """
    draft = trial.draft
    names = [
        column for column, kind in draft.value_columns.items() if kind.startswith("TIMESTAMP") and column not in stated
    ]
    if not names or draft.row_per_record:
        return trial
    fields = [name for name, kind in draft.types.items() if kind == "timestamp"]
    times = {values.get(name) for values in trial.list_values() for name in fields} - {None}
    written = {name: {to_micros_of(row[name]) for row in reading.rows if row[name] is not None} for name in names}
    foreign = {name: _FOREIGN_TIME for name in names if written[name] and times.isdisjoint(written[name])}
    columns = {column: kind for column, kind in draft.value_columns.items() if column not in foreign}
    if not columns:
        return trial
    return replace(trial, draft=replace(draft, value_columns=columns, omitted={**draft.omitted, **foreign}))


@dataclass(frozen=True, slots=True)
class CandidateRecord:
    """Record with the rows in which it counts if it passes the filter, and if none before it has the same twin."""

    place: int  # among the records of the trial
    values: Values
    passes: bool  # the filter that the draft has
    twin: Twin | None
    rows: tuple[tuple[int, int, tuple[Any, ...]], ...]  # start and end of the window, key


class Fold:
    """Records of a trial, placed once for all filters, and the rows of the table with which they are compared."""

    def __init__(self, trial: Trial, reading: JobReading) -> None:
        """Place the records as the job would, by the watermarks of its batches."""
        self.trial, self.plan = trial, reading.plan
        self.table = index_rows(trial, reading)
        self._records = list(self._place([len(batch) for batch in reading.records]))

    def _place(self, sizes: Sequence[int]) -> Iterator[CandidateRecord]:
        draft, first = self.trial.draft, 0
        pipeline = draft.make_pipeline({"rows": Count()})
        for batch, size in zip(self.plan.batches, sizes, strict=True):
            watermark = None if draft.keeps_late else batch.watermark if draft.single_watermark else batch.judged_by
            records = self.trial.records[first : first + size]
            places = {id(record): first + place for place, record in enumerate(records)}
            for record, twin, groups in assign_groups(pipeline, records, watermark):
                rows = tuple((start, end, tuple(map(drop_zone, key))) for start, end, key in groups)
                passes = record.evaluated is not None and record.evaluated.passes
                yield CandidateRecord(places[id(record)], record.parsed.values, passes, twin, rows)
            first += size

    def select(self, condition: Filter) -> Iterator[CandidateRecord]:
        """Select the records that pass a filter, in addition to that of the draft: one of those that share a twin."""
        twins = set[Twin]()
        for record in self._records:
            if not record.passes or not condition.passes(record.values):
                continue
            if record.twin is not None:
                if record.twin in twins:
                    continue
                twins.add(record.twin)
            yield record

    def group(self, condition: Filter) -> dict[RowKey, list[int]]:
        """Group the places of the records that pass a filter by the rows that the job has written."""
        draft, groups = self.trial.draft, dict[Group, list[int]]()
        for record in self.select(condition):
            for row in record.rows:
                groups.setdefault(row, []).append(record.place)
        if not draft.window.merges:
            return {(start, key): places for (start, end, key), places in groups.items() if self.is_tested(start, end)}
        return {
            (start, (*key, end)): places
            for (start, end, key), places in merge_sessions(groups).items()
            if self.is_tested(start, end) and not _overlaps(self.table.divided.get(key, ()), start, end)
        }

    def is_tested(self, start: int, end: int) -> bool:
        """Return whether a window is whole, and the job has written it."""
        return is_tested(self.trial.draft, self.plan, start, end)


def _overlaps(intervals: Sequence[Interval], start: int, end: int) -> bool:
    return any(interval.start <= end and start <= interval.end for interval in intervals)


def is_tested(draft: JobDraft, plan: ReadPlan, start: int, end: int) -> bool:
    """Return whether all records of a window were read, and the job has written it: in append mode once it is closed.

    A session is whole if no earlier record can be in it.
    """
    is_written = draft.output_mode != "append" or draft.row_per_record or end <= plan.closed_until
    margin = draft.window.reach or 0 if draft.window.merges else 0
    return is_written and (plan.whole_from is None or start - margin >= plan.whole_from)


def compute_rows(
    trial: Trial, groups: Mapping[RowKey, Sequence[int]], pipeline: Pipeline
) -> dict[RowKey, dict[str, Any]]:
    """Compute the measures of each row from the places of its records in a trial, which may have other types."""
    computed = {}
    for key, places in groups.items():
        records = (trial.records[place] for place in places)
        rows = [make_counted_row(record, record.evaluated) for record in records if record.evaluated is not None]
        if rows:
            computed[key] = finish_values(pipeline, merge_values(pipeline, *zip(*rows, strict=True)))
    return computed


def index_rows(trial: Trial, reading: JobReading) -> IndexedRows:
    """Index the rows of a table by window and key; those of a table with a row per record are grouped."""
    draft, plan = trial.draft, reading.plan
    if draft.window.merges:
        return _index_sessions(draft, reading)
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
        if plan.whole_from is not None and start < plan.whole_from:
            continue
        if draft.row_per_record:
            indexed[start, key] = _merge_row(draft, indexed.get((start, key)), row)
        else:
            copies += (start, key) in indexed
            indexed[start, key] = dict(row)
    return IndexedRows(rows=indexed, copies=copies)


def _index_sessions(draft: JobDraft, reading: JobReading) -> IndexedRows:
    """Index sessions by start, key and end, without those that the job has written in several rows.

    In append mode a record that is not late begins another row if its session was written before: the rows touch.
    """
    by_key: dict[tuple[Any, ...], dict[Interval, Values]] = {}
    copies = 0
    for row in reading.rows:
        bounds = row[draft.start_column], row[draft.end_column or draft.start_column]
        if None in bounds:
            continue
        interval = Interval(*map(to_micros_of, bounds))
        sessions = by_key.setdefault(tuple(drop_zone(row[part.column]) for part in draft.key), {})
        copies += interval in sessions
        sessions[interval] = row
    divided: dict[tuple[Any, ...], list[Interval]] = {}
    indexed: dict[RowKey, Values] = {}
    for key, sessions in by_key.items():
        merged = merge_intervals(sessions)
        divided[key] = [interval for interval in merged if interval not in sessions]
        indexed |= {
            (start, (*key, end)): row
            for (start, end), row in sessions.items()
            if is_tested(draft, reading.plan, start, end) and not _overlaps(divided[key], start, end)
        }
    return IndexedRows(rows=indexed, copies=copies, divided=divided)


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
    return {values[part.field] for values in trial.list_values()}


def _merge_row(draft: JobDraft, merged: Mapping[str, Any] | None, row: Values) -> dict[str, Any]:
    """Merge a row into those of its record: the number of rows, and the largest value of each column."""
    result = dict(merged or {})
    for column, choice in draft.measures.items():
        value = (result.get(column) or 0) + 1 if choice.expression is None else row[column]
        known = result.get(column)
        is_larger = choice.expression is None or known is None or (value is not None and value > known)
        result[column] = value if is_larger else known
    return result


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


MAX_CONDITIONS = 60
"""Conditions that are tried."""

HOPELESS = 20
"""Cells after which a measure that has reproduced none of them is given up."""

_ONE = MeasureChoice("Sum", "1")


@dataclass(slots=True)
class _Column:
    """Column whose measure is searched for."""

    cells: Mapping[RowKey, Any]
    noise: float
    equal: int  # cells that the best measures reproduce
    choices: tuple[MeasureChoice, ...] = ()
    tried: int = 0

    def try_measure(self, choice: MeasureChoice, compute: Callable[[RowKey], Any]) -> None:
        """Keep a measure if it reproduces more cells than those before, or as many as one with a condition."""
        self.tried += 1
        equal, remaining = 0, len(self.cells)
        for place, (key, actual) in enumerate(self.cells.items()):
            if equal + remaining < max(self.equal, 1) or (place == HOPELESS and not equal):
                return
            remaining -= 1
            equal += is_equal(compute(key), actual, self.noise)
        if equal > self.equal:
            self.equal, self.choices = equal, (choice,)
        elif equal == self.equal and self.choices:
            self.choices = (*self.choices, choice)


def find_conditional(
    fold: Fold, trials: Sequence[Trial], where: Filter, equal: Mapping[str, int]
) -> dict[str, tuple[tuple[MeasureChoice, ...], int, int]]:
    """Find conditional measures of the columns that no other measure reproduces.

    Args:
        fold: Records and rows of the table.
        trials: The records with each type that numbers may have.
        where: Filter of the job.
        equal: Column -> cells that its best measures reproduce.

    Returns:
        Column -> its best conditional measures, empty if none is better; the cells that they reproduce; and how many
        were tried.
    """
    groups = fold.group(where)
    shared = sorted(groups.keys() & fold.table.rows.keys(), key=str)
    columns = {
        column: _Column(
            cells={key: fold.table.rows[key][column] for key in shared},
            noise=find_noise(row[column] for row in fold.table.rows.values()),
            equal=count,
        )
        for column, count in equal.items()
        if count < len(shared)
    }
    if columns:
        values = [record.values for record in fold.select(where)]
        for condition in list(list_filters(fold.trial.draft, values))[:MAX_CONDITIONS]:
            for choice, compute in _list_measures(fold, trials, condition, groups):
                for column in columns.values():
                    column.try_measure(choice, compute)
    return {name: (column.choices, column.equal, column.tried) for name, column in columns.items()}


def _list_measures(
    fold: Fold, trials: Sequence[Trial], condition: Filter, groups: Mapping[RowKey, Sequence[int]]
) -> Iterator[tuple[MeasureChoice, Callable[[RowKey], Any]]]:
    """Yield each measure of the records that a condition selects, with the function that computes it for a row."""

    @cache
    def select(key: RowKey) -> list[int]:
        return [place for place in groups[key] if condition.passes(fold.trial.records[place].parsed.values)]

    yield replace(_ONE, condition=condition.sql, has_zero=True), lambda key: len(select(key))
    yield replace(_ONE, condition=condition.sql), lambda key: len(select(key)) or None
    for trial in trials:
        for name, choice in trial.choices.items():
            if choice.expression is None:
                continue
            compute = _make_compute(trial, name, choice, select)
            yield replace(choice, condition=condition.sql), compute
            if choice.kind == "Sum":
                zero = _make_zero(compute, lambda key: len(select(key)) < len(groups[key]))
                yield replace(choice, condition=condition.sql, has_zero=True), zero


def _make_compute(
    trial: Trial, name: str, choice: MeasureChoice, select: Callable[[RowKey], Sequence[int]]
) -> Callable[[RowKey], Any]:
    measure = choice.make()

    @cache
    def compute(key: RowKey) -> Any:
        records = [trial.records[place] for place in select(key)]
        counted = [make_counted_row(record, record.evaluated) for record in records if record.evaluated is not None]
        values = [row[name] for row, _ in counted]
        return finish_measure(measure, merge_measure(measure, values, [position for _, position in counted]))

    return compute


def _make_zero(compute: Callable[[RowKey], Any], has_others: Callable[[RowKey], bool]) -> Callable[[RowKey], Any]:
    """Return the sum to which each other record adds a zero."""

    def compute_with_zero(key: RowKey) -> Any:
        value = compute(key)
        return 0 if value is None and has_others(key) else value

    return compute_with_zero
