"""The whole of both paths in plain Python: classes, windows, measures, and the stream's watermark epoch by epoch."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cutover.definition.model.joins import RIGHT_PARTITION_BASE
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.record_ids import compute_oldest_remembered
from cutover.definition.windows.window_fn import Interval, merge_intervals
from cutover.log.kafka import RawRecord
from cutover.records.classes import WITH_POSITIONS, Class, Reason
from cutover.records.closing import compute_late_margin
from cutover.records.reference import joined
from cutover.records.reference.evaluate import ExpressionValues, evaluate_rows
from cutover.records.reference.further import EventPosition
from cutover.records.reference.lookups import DimensionsAt, join_dimensions, no_dimensions
from cutover.records.reference.measures import finish_values
from cutover.records.reference.measures import merge_values as states_of
from cutover.records.reference.parse import ParsedRecord, parse_record

CountedRow = tuple[Mapping[str, Any], EventPosition]  # what the measures of a record look at, and where it stands
Twin = tuple[Any, int]  # record id, event time (microseconds): of several with the same one counts
Group = tuple[int, int, tuple[Any, ...]]  # window start, window end (microseconds), key


@dataclass(frozen=True, slots=True, kw_only=True)
class UncountedPair:
    """One (record, window) that did not count, or one record without a window."""

    cls: Class
    partition: int
    offset: int
    window_start: int | None
    event_time: int | None
    reason: Reason | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """The result of one window and key."""

    n: int  # records
    measures: Mapping[str, Any]  # finished


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a path must have computed."""

    rows: Mapping[Group, ResultRow]
    ledger: frozenset[UncountedPair]  # malformed, future, duplicate and late
    counts: Mapping[Class, int]  # (record, window) pairs by class; a class that did not occur is 0
    unknown: int  # unknown top-level fields of well-formed records, summed
    watermarks: tuple[int | None, ...] = ()  # after each epoch
    new_twins: frozenset[Twin] = frozenset()  # ids and event times that nobody knew before the first record
    id_conflicts: int = 0  # records that count though one with the same id and an earlier event time does too


@dataclass(slots=True)
class _RunState:
    """What a run fills in."""

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
        """Return whether it is dated further ahead of its log timestamp than allowed."""
        return self.event is not None and self.event > self.raw.log_time_micros + pipeline.lateness.max_ahead_micros


def run(
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
        records: The whole log that there is when the run ends, any order.
        epochs: The next offset of every partition at the end of each epoch, ascending: the streaming path, with late
            rows; records behind the last border are unread. None: the batch truth over all records.
        watermarks: The watermark that judges the records of each epoch, where it is known: of epochs from the middle
            of a stream. None: it is found from the records.
        dimensions: What lookups take their columns from.
        known_twins: Ids and event times that are known before the first record.

    Returns:
        The result; idle partitions are not simulated, so give borders of a run in which none was idle.
    """
    evaluated = evaluate_records(pipeline, sorted(records, key=lambda r: (r.partition, r.offset)), dimensions)
    initial_twins = set(known_twins)
    books = _RunState(twins=set(initial_twins))
    epoch_watermarks: list[int | None] = []
    for number, epoch_records in enumerate([evaluated] if epochs is None else _split_epochs(evaluated, epochs)):
        watermark = (epoch_watermarks[-1] if epoch_watermarks else None) if watermarks is None else watermarks[number]
        for record in epoch_records:
            _classify(books, pipeline, record, watermark)
        if epochs is not None:
            epoch_watermarks.append(_advance_watermark(pipeline, evaluated, epochs[number], watermark))
    read = evaluated if epochs is None else [r for r in evaluated if _is_read(r.raw, epochs[-1] if epochs else {})]
    result = _make_result(
        pipeline, books, sum(r.parsed.unknown for r in read if r.reason is None), tuple(epoch_watermarks)
    )
    return replace(result, new_twins=frozenset(books.twins - initial_twins))


def evaluate_records(
    pipeline: Pipeline, records: Sequence[RawRecord], dimensions: DimensionsAt
) -> list[EvaluatedRecord]:
    """Return each record, parsed and evaluated as its topic's side of the definition says."""
    left_pipeline, right_pipeline = joined.make_side_pipelines(pipeline)
    ours = [record for record in records if record.partition < RIGHT_PARTITION_BASE]
    right_records = [record for record in records if record.partition >= RIGHT_PARTITION_BASE]
    return [
        *_evaluate_topic(pipeline, left_pipeline, ours, dimensions),
        *_evaluate_topic(pipeline, right_pipeline, right_records, dimensions),
    ]


def _evaluate_topic(
    pipeline: Pipeline, side: Pipeline, records: Sequence[RawRecord], dimensions: DimensionsAt
) -> list[EvaluatedRecord]:
    parsed = [parse_record(record.value, side.source) for record in records]
    well_formed = ((item.values, raw) for raw, item in zip(records, parsed, strict=True) if item.reason is None)
    evaluations = iter(
        evaluate_rows(side, [join_dimensions(side, values, dimensions(raw)) for values, raw in well_formed])
    )
    return [
        _make_evaluated_record(
            side, raw, item, joined.apply_join_conditions(pipeline, next(evaluations)) if item.reason is None else None
        )
        for raw, item in zip(records, parsed, strict=True)
    ]


def _make_evaluated_record(
    pipeline: Pipeline, raw: RawRecord, parsed: ParsedRecord, evaluated: ExpressionValues | None
) -> EvaluatedRecord:
    reason = Reason.EXPRESSION if evaluated is not None and evaluated.failed else parsed.reason
    event = None if reason is not None else parsed.values[pipeline.source.event_time]
    return EvaluatedRecord(raw=raw, parsed=parsed, evaluated=None if reason else evaluated, reason=reason, event=event)


def _is_read(record: RawRecord, border: Mapping[int, int]) -> bool:
    return record.offset < border.get(record.partition, 0)


def _split_epochs(
    evaluated_records: Sequence[EvaluatedRecord], epochs: Sequence[Mapping[int, int]]
) -> list[list[EvaluatedRecord]]:
    starts: list[Mapping[int, int]] = [{}, *epochs[:-1]]
    return [
        [r for r in evaluated_records if _is_read(r.raw, end) and not _is_read(r.raw, start)]
        for start, end in zip(starts, epochs, strict=True)
    ]


def _classify(books: _RunState, pipeline: Pipeline, record: EvaluatedRecord, watermark: int | None) -> None:
    if record.evaluated is None or record.event is None:
        _count_pair(books, record, Class.MALFORMED, None)
        return
    if not record.evaluated.passes:
        _count_pair(books, record, Class.FILTERED, None)
        return
    forgotten, is_twin = _check_twin(books, pipeline, record, watermark)
    for start, end in pipeline.window.assign_windows(record.event):
        late = forgotten or (watermark is not None and end + compute_late_margin(pipeline) <= watermark)
        cls = Class.DUPLICATE if is_twin else Class.LATE if late else Class.ACCEPTED
        cls = Class.FUTURE if record.is_future(pipeline) else cls
        _count_pair(books, record, cls, start)
        if cls is Class.ACCEPTED:
            books.groups.setdefault((start, end, record.evaluated.key), []).append(
                make_counted_row(record, record.evaluated)
            )


def _check_twin(
    books: _RunState, pipeline: Pipeline, record: EvaluatedRecord, watermark: int | None
) -> tuple[bool, bool]:
    """Return whether a record is too old for its id to be known, and whether its twin was there before; note its id."""
    name, event = pipeline.source.record_id, record.event
    if name is None or event is None or record.is_future(pipeline):
        return False, False
    remembered = compute_oldest_remembered(pipeline, watermark)
    if remembered is not None and event < remembered:
        return True, False
    twin = (record.parsed.values[name], event)
    is_twin = twin in books.twins
    books.twins.add(twin)
    return False, is_twin


def make_counted_row(record: EvaluatedRecord, evaluated: ExpressionValues) -> CountedRow:
    """Return what the measures look at in a record, and its place in the log."""
    return evaluated.values, (record.event or 0, record.raw.partition, record.raw.offset)


def _count_pair(books: _RunState, record: EvaluatedRecord, cls: Class, start: int | None) -> None:
    books.counts[cls] += 1
    if cls in WITH_POSITIONS:
        raw = record.raw
        books.ledger.add(
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
    pipeline: Pipeline, evaluated_records: Sequence[EvaluatedRecord], border: Mapping[int, int], previous: int | None
) -> int | None:
    """Return the minimum over partitions of the newest event time read, less the out-of-orderness; never back."""
    newest: dict[int, int | None] = {}
    for record in evaluated_records:
        newest_event = newest.setdefault(record.raw.partition, None)
        if _is_read(record.raw, border) and record.event is not None and not record.is_future(pipeline):
            newest[record.raw.partition] = max(record.event, record.event if newest_event is None else newest_event)
    unread = {record.raw.partition for record in evaluated_records if not _is_read(record.raw, border)}
    if any(newest[partition] is None for partition in unread):
        return previous
    active = [event for event in newest.values() if event is not None]
    if not active:
        return previous
    candidate = min(active) - pipeline.lateness.out_of_orderness_micros
    return candidate if previous is None else max(previous, candidate)


def merge_sessions(single_rows: Mapping[Group, list[CountedRow]]) -> dict[Group, list[CountedRow]]:
    """Return the groups of sessions from those of rows alone: of a key, those that touch are one."""
    sessions: dict[Group, list[CountedRow]] = {}
    for key in {group[2] for group in single_rows}:
        rows_by_interval = {Interval(*group[:2]): rows for group, rows in single_rows.items() if group[2] == key}
        for start, end in merge_intervals(rows_by_interval):
            merged = (
                rows
                for interval, rows in sorted(rows_by_interval.items())
                if start <= interval.start and interval.end <= end
            )
            sessions[start, end, key] = [row for rows in merged for row in rows]
    return sessions


def _make_result(pipeline: Pipeline, books: _RunState, unknown: int, watermarks: tuple[int | None, ...]) -> Result:
    groups = merge_sessions(books.groups) if pipeline.window.merges else books.groups
    measures = compute_measures(pipeline, groups)
    rows = {group: ResultRow(n=len(members), measures=measures[group]) for group, members in groups.items()}
    counts = {cls: books.counts[cls] for cls in Class}
    return Result(
        rows=rows,
        ledger=frozenset(books.ledger),
        counts=counts,
        unknown=unknown,
        watermarks=watermarks,
        id_conflicts=len(books.twins) - len({name for name, _ in books.twins}),
    )


def compute_measures(pipeline: Pipeline, groups: Mapping[Group, Sequence[CountedRow]]) -> dict[Group, dict[str, Any]]:
    """Compute every measure from all records of a group at once, without partial aggregates."""
    if pipeline.join is not None:
        return joined.compute_join_measures(pipeline, {group: (group[2], rows) for group, rows in groups.items()})
    return {
        group: finish_values(pipeline, states_of(pipeline, *zip(*rows, strict=True))) for group, rows in groups.items()
    }
