"""Both paths in plain Python: classes, windows, measures, and the streaming watermark after each epoch.

`compute_reference` runs a whole log; `place_records` and `fold_records` do the same for selected records.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from cutover.definition.model.joins import RIGHT_PARTITION_BASE
from cutover.definition.model.pipeline import Pipeline, compute_oldest_remembered
from cutover.definition.windows.window_fn import Interval, merge_intervals
from cutover.log.kafka import RawRecord
from cutover.records.classes import WITH_POSITIONS, Class, Reason
from cutover.records.parsing.parsed_record import ParsedRecord
from cutover.records.reference import evaluation
from cutover.records.reference.evaluation import CountedRow, ExpressionValues, evaluate_expressions
from cutover.records.reference.lookups import DimensionsAt, look_up_columns, no_dimensions
from cutover.records.reference.measures import finish_values, merge_values
from cutover.records.reference.parse import parse_record
from cutover.records.watermark import compute_late_margin

Twin = tuple[Any, int]  # record id, event time (microseconds): only one of the records that share it counts
Item = TypeVar("Item")
Group = tuple[int, int, tuple[Any, ...]]  # window start, window end (microseconds), key


@dataclass(frozen=True, slots=True, kw_only=True)
class UncountedPair:
    """A (record, window) pair that does not count, or a record without a window."""

    cls: Class
    partition: int
    offset: int
    window_start: int | None
    event_time: int | None
    reason: Reason | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """Result of one window and key."""

    n: int  # records
    measures: Mapping[str, Any]  # finished values


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Expected result of a path."""

    rows: Mapping[Group, ResultRow]
    ledger: frozenset[UncountedPair]  # malformed, future, duplicate and late
    counts: Mapping[Class, int]  # (record, window) pairs by class; 0 for a class that does not occur
    unknown: int  # sum of unknown top-level fields of well-formed records
    watermarks: tuple[int | None, ...] = ()  # after each epoch
    new_twins: frozenset[Twin] = frozenset()  # ids and event times that were not known before the first record
    id_conflicts: int = 0  # records that count, as does one with the same id and an earlier event time


@dataclass(slots=True)
class _RunState:
    """Mutable state of a run."""

    groups: dict[Group, list[CountedRow]] = field(default_factory=dict)
    ledger: set[UncountedPair] = field(default_factory=set)
    counts: Counter[Class] = field(default_factory=Counter)
    twins: set[Twin] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedRecord:
    """One record, parsed and evaluated."""

    raw: RawRecord
    parsed: ParsedRecord
    evaluated: ExpressionValues | None  # None: malformed
    reason: Reason | None
    event: int | None

    def is_future(self, pipeline: Pipeline) -> bool:
        """Return whether the event time exceeds the log timestamp by more than allowed."""
        return self.event is not None and self.event > self.raw.log_time_micros + pipeline.lateness.max_ahead_micros


def compute_reference(
    pipeline: Pipeline,
    records: Sequence[RawRecord],
    *,
    epochs: Sequence[Mapping[int, int]] | None = None,
    watermarks: Sequence[int | None] | None = None,
    dimensions: DimensionsAt = no_dimensions,
    known_twins: Iterable[Twin] = (),
) -> Result:
    """Compute a pipeline over a log.

    Args:
        pipeline: The definition.
        records: All records in the log at the end of the run, in any order.
        epochs: The next offset of every partition at the end of each epoch, ascending: the streaming path, with late
            rows; records after the last epoch are unread. None: the batch result over all records.
        watermarks: The watermark by which the records of each epoch are classified; needed for epochs from the middle
            of a stream. None: it is computed from the records.
        dimensions: Dimensions of the lookups.
        known_twins: Ids and event times that are known before the first record.

    Returns:
        The result. Idle partitions are not simulated: the epochs have to be those of a run without idle partitions.
    """
    evaluated = evaluate_records(pipeline, sorted(records, key=lambda r: (r.partition, r.offset)), dimensions)
    initial_twins = set(known_twins)
    state = _RunState(twins=set(initial_twins))
    epoch_watermarks: list[int | None] = []
    for number, epoch_records in enumerate([evaluated] if epochs is None else _split_epochs(evaluated, epochs)):
        watermark = (epoch_watermarks[-1] if epoch_watermarks else None) if watermarks is None else watermarks[number]
        for record in epoch_records:
            _classify(state, pipeline, record, watermark)
        if epochs is not None:
            epoch_watermarks.append(_advance_watermark(pipeline, evaluated, epochs[number], watermark))
    read = evaluated if epochs is None else [r for r in evaluated if _is_read(r.raw, epochs[-1] if epochs else {})]
    groups = merge_sessions(state.groups) if pipeline.window.merges else state.groups
    measures = compute_measures(pipeline, groups)
    return Result(
        rows={group: ResultRow(n=len(rows), measures=measures[group]) for group, rows in groups.items()},
        ledger=frozenset(state.ledger),
        counts={cls: state.counts[cls] for cls in Class},
        unknown=sum(r.parsed.unknown for r in read if r.reason is None),
        watermarks=tuple(epoch_watermarks),
        new_twins=frozenset(state.twins - initial_twins),
        id_conflicts=len(state.twins) - len({record_id for record_id, _ in state.twins}),
    )


def assign_groups(
    pipeline: Pipeline, records: Iterable[EvaluatedRecord], watermark: int | None
) -> Iterator[tuple[EvaluatedRecord, Twin | None, tuple[Group, ...]]]:
    """Yield the well-formed records of an epoch with their twin and the groups in which they count.

    The filter is not applied, and a record counts only once of those that pass it and share a twin.

    Args:
        pipeline: A definition with `stream`, of which no record is ahead of its time.
        records: Of one epoch.
        watermark: By which they are classified.
    """
    name, margin = pipeline.source.record_id, compute_late_margin(pipeline)
    oldest_remembered = compute_oldest_remembered(pipeline, watermark)
    for record in records:
        if record.evaluated is None or record.event is None:
            continue
        if oldest_remembered is not None and record.event < oldest_remembered:
            continue
        windows = pipeline.window.assign_windows(record.event)
        in_time = (window for window in windows if watermark is None or window.end + margin > watermark)
        twin = None if name is None else (record.parsed.values[name], record.event)
        yield record, twin, tuple((start, end, record.evaluated.key) for start, end in in_time)


def evaluate_records(
    pipeline: Pipeline, records: Sequence[RawRecord], dimensions: DimensionsAt
) -> list[EvaluatedRecord]:
    """Parse each record and evaluate the expressions of its side of the join, if there is one."""
    left_pipeline, right_pipeline = evaluation.make_side_pipelines(pipeline)
    left_records = [record for record in records if record.partition < RIGHT_PARTITION_BASE]
    right_records = [record for record in records if record.partition >= RIGHT_PARTITION_BASE]
    return [
        *_evaluate_topic(pipeline, left_pipeline, left_records, dimensions),
        *_evaluate_topic(pipeline, right_pipeline, right_records, dimensions),
    ]


def _evaluate_topic(
    pipeline: Pipeline, side: Pipeline, records: Sequence[RawRecord], dimensions: DimensionsAt
) -> list[EvaluatedRecord]:
    parsed = [parse_record(record.value, side.source, record.log_time_micros) for record in records]
    return evaluate_parsed_records(pipeline, side, records, parsed, dimensions)


def evaluate_parsed_records(
    pipeline: Pipeline,
    side: Pipeline,
    records: Sequence[RawRecord],
    parsed: Sequence[ParsedRecord],
    dimensions: DimensionsAt,
) -> list[EvaluatedRecord]:
    """Evaluate the expressions of a side of a join, or of a pipeline without one, over records that are parsed."""
    well_formed = ((item.values, raw) for raw, item in zip(records, parsed, strict=True) if item.reason is None)
    evaluations = iter(
        evaluate_expressions(side, [look_up_columns(side, values, dimensions(raw)) for values, raw in well_formed])
    )
    return [
        _make_evaluated_record(
            side,
            raw,
            item,
            evaluation.apply_join_conditions(pipeline, next(evaluations)) if item.reason is None else None,
        )
        for raw, item in zip(records, parsed, strict=True)
    ]


def _make_evaluated_record(
    pipeline: Pipeline, raw: RawRecord, parsed: ParsedRecord, evaluated: ExpressionValues | None
) -> EvaluatedRecord:
    reason = Reason.EXPRESSION if evaluated is not None and evaluated.failed else parsed.reason
    event = None if reason is not None else parsed.values[pipeline.source.event_time]
    return EvaluatedRecord(raw=raw, parsed=parsed, evaluated=None if reason else evaluated, reason=reason, event=event)


def _is_read(record: RawRecord, end_offsets: Mapping[int, int]) -> bool:
    return record.offset < end_offsets.get(record.partition, 0)


def _split_epochs(
    evaluated_records: Sequence[EvaluatedRecord], epochs: Sequence[Mapping[int, int]]
) -> list[list[EvaluatedRecord]]:
    starts: list[Mapping[int, int]] = [{}, *epochs[:-1]]
    return [
        [r for r in evaluated_records if _is_read(r.raw, end) and not _is_read(r.raw, start)]
        for start, end in zip(starts, epochs, strict=True)
    ]


def _classify(state: _RunState, pipeline: Pipeline, record: EvaluatedRecord, watermark: int | None) -> None:
    if record.evaluated is None or record.event is None:
        _count_pair(state, record, Class.MALFORMED, None)
        return
    if not record.evaluated.passes:
        _count_pair(state, record, Class.FILTERED, None)
        return
    has_expired_id, is_twin = _check_twin(state, pipeline, record, watermark)
    for start, end in pipeline.window.assign_windows(record.event):
        is_late = has_expired_id or (watermark is not None and end + compute_late_margin(pipeline) <= watermark)
        cls = Class.DUPLICATE if is_twin else Class.LATE if is_late else Class.ACCEPTED
        cls = Class.FUTURE if record.is_future(pipeline) else cls
        _count_pair(state, record, cls, start)
        if cls is Class.ACCEPTED:
            state.groups.setdefault((start, end, record.evaluated.key), []).append(
                make_counted_row(record, record.evaluated)
            )


def _check_twin(
    state: _RunState, pipeline: Pipeline, record: EvaluatedRecord, watermark: int | None
) -> tuple[bool, bool]:
    """Remember a record's id; return whether its id has expired, and whether it has an earlier twin."""
    name, event = pipeline.source.record_id, record.event
    if name is None or event is None or record.is_future(pipeline):
        return False, False
    oldest_remembered = compute_oldest_remembered(pipeline, watermark)
    if oldest_remembered is not None and event < oldest_remembered:
        return True, False
    twin = (record.parsed.values[name], event)
    is_twin = twin in state.twins
    state.twins.add(twin)
    return False, is_twin


def make_counted_row(record: EvaluatedRecord, evaluated: ExpressionValues) -> CountedRow:
    """Return the values of the measures' expressions for a record, and its position."""
    return evaluated.values, (record.event or 0, record.raw.partition, record.raw.offset)


def _count_pair(state: _RunState, record: EvaluatedRecord, cls: Class, start: int | None) -> None:
    state.counts[cls] += 1
    if cls in WITH_POSITIONS:
        raw = record.raw
        state.ledger.add(
            UncountedPair(
                cls=cls,
                partition=raw.partition,
                offset=raw.offset,
                window_start=start,
                event_time=record.event,
                reason=record.reason,
            )
        )


def _advance_watermark(
    pipeline: Pipeline,
    evaluated_records: Sequence[EvaluatedRecord],
    end_offsets: Mapping[int, int],
    previous: int | None,
) -> int | None:
    """Return the minimum over partitions of the newest event time read, minus the out-of-orderness; never decreases."""
    newest: dict[int, int | None] = {}
    for record in evaluated_records:
        newest_event = newest.setdefault(record.raw.partition, None)
        if _is_read(record.raw, end_offsets) and record.event is not None and not record.is_future(pipeline):
            newest[record.raw.partition] = max(record.event, record.event if newest_event is None else newest_event)
    unread = {record.raw.partition for record in evaluated_records if not _is_read(record.raw, end_offsets)}
    if any(newest[partition] is None for partition in unread):
        return previous
    active = [event for event in newest.values() if event is not None]
    if not active:
        return previous
    candidate = min(active) - pipeline.lateness.out_of_orderness_micros
    return candidate if previous is None else max(previous, candidate)


def merge_sessions(single_rows: Mapping[Group, list[Item]]) -> dict[Group, list[Item]]:
    """Merge the windows of single rows into sessions: touching windows of a key become one group."""
    by_key: dict[tuple[Any, ...], dict[Interval, list[Item]]] = {}
    for (start, end, key), rows in single_rows.items():
        by_key.setdefault(key, {})[Interval(start, end)] = rows
    sessions: dict[Group, list[Item]] = {}
    for key, rows_by_interval in by_key.items():
        remaining = deque(sorted(rows_by_interval))
        for start, end in merge_intervals(rows_by_interval):
            session = sessions[start, end, key] = []
            while remaining and remaining[0].start <= end:
                session += rows_by_interval[remaining.popleft()]
    return sessions


def compute_measures(pipeline: Pipeline, groups: Mapping[Group, Sequence[CountedRow]]) -> dict[Group, dict[str, Any]]:
    """Compute every measure from all records of a group at once, without partial aggregates."""
    if pipeline.join is not None:
        joined_groups = {group: (group[0], group[2], rows) for group, rows in groups.items()}
        return evaluation.compute_join_measures(pipeline, joined_groups)
    return {
        group: finish_values(pipeline, merge_values(pipeline, *zip(*rows, strict=True)))
        for group, rows in groups.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedRecord:
    """Well-formed record that passes `where`, in one of its windows."""

    group: Group  # for sessions: the window of the single record
    row: CountedRow
    is_future: bool
    twin: Twin | None  # None: records have no id

    @property
    def position(self) -> tuple[int, int]:
        """Partition and offset."""
        return self.row[1][1:]


def place_records(
    pipeline: Pipeline, records: Sequence[RawRecord], dimensions: DimensionsAt = no_dimensions
) -> Iterator[PlacedRecord]:
    """Yield each well-formed record that passes `where`, whatever its class, once per window.

    Args:
        pipeline: The definition.
        records: Any records, in any order.
        dimensions: Dimensions of the lookups.
    """
    for record in evaluate_records(pipeline, records, dimensions):
        evaluated, event = record.evaluated, record.event
        if evaluated is None or event is None or not evaluated.passes:
            continue
        row, twin = make_counted_row(record, evaluated), _find_twin(pipeline, record, event)
        for start, end in pipeline.window.assign_windows(event):
            group = (start, end, evaluated.key)
            yield PlacedRecord(group=group, row=row, is_future=record.is_future(pipeline), twin=twin)


def fold_records(pipeline: Pipeline, selected: Sequence[PlacedRecord]) -> Mapping[Group, ResultRow]:
    """Compute the result of the selected records only."""
    groups: dict[Group, list[CountedRow]] = {}
    for record in selected:
        groups.setdefault(record.group, []).append(record.row)
    merged_groups = merge_sessions(groups) if pipeline.window.merges else groups
    measures = compute_measures(pipeline, merged_groups)
    return {group: ResultRow(n=len(rows), measures=measures[group]) for group, rows in merged_groups.items()}


def _find_twin(pipeline: Pipeline, record: EvaluatedRecord, event: int) -> Twin | None:
    name = pipeline.source.record_id
    return None if name is None else (record.parsed.values[name], event)
