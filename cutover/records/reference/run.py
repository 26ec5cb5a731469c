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
from cutover.records.closing import grace
from cutover.records.reference import joined
from cutover.records.reference.evaluate import Evaluated, evaluate
from cutover.records.reference.further import Place
from cutover.records.reference.lookups import At, look_up, nothing
from cutover.records.reference.measures import finish_values
from cutover.records.reference.measures import merge_values as states_of
from cutover.records.reference.parse import ParsedRecord, parse

Counted = tuple[Mapping[str, Any], Place]  # what the measures of a record look at, and where it stands
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
    shown: frozenset[Twin] = frozenset()  # ids and event times that nobody knew before the first record
    id_conflicts: int = 0  # records that count though one with the same id and an earlier event time does too


@dataclass(slots=True)
class _Books:
    """What a run fills in."""

    groups: dict[Group, list[Counted]] = field(default_factory=dict)
    ledger: set[UncountedPair] = field(default_factory=set)
    counts: Counter[Class] = field(default_factory=Counter)
    seen: set[Twin] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedRecord:
    """One record, parsed and evaluated."""

    raw: RawRecord
    parsed: ParsedRecord
    evaluated: Evaluated | None  # None: malformed
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
    dimensions: At = nothing,
    seen: Iterable[Twin] = (),
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
        seen: Ids and event times that are known before the first record.

    Returns:
        The result; idle partitions are not simulated, so give borders of a run in which none was idle.
    """
    judged = judge(pipeline, sorted(records, key=lambda r: (r.partition, r.offset)), dimensions)
    known = set(seen)
    books = _Books(seen=set(known))
    reached: list[int | None] = []
    for number, inside in enumerate([judged] if epochs is None else _epochs(judged, epochs)):
        watermark = (reached[-1] if reached else None) if watermarks is None else watermarks[number]
        for record in inside:
            _classify(books, pipeline, record, watermark)
        if epochs is not None:
            reached.append(_watermark(pipeline, judged, epochs[number], watermark))
    read = judged if epochs is None else [r for r in judged if _is_read(r.raw, epochs[-1] if epochs else {})]
    found = _result(pipeline, books, sum(r.parsed.unknown for r in read if r.reason is None), tuple(reached))
    return replace(found, shown=frozenset(books.seen - known))


def judge(pipeline: Pipeline, records: Sequence[RawRecord], dimensions: At) -> list[EvaluatedRecord]:
    """Return each record, parsed and evaluated as its topic's side of the definition says."""
    left, right = joined.questions_of(pipeline)
    ours = [record for record in records if record.partition < RIGHT_PARTITION_BASE]
    theirs = [record for record in records if record.partition >= RIGHT_PARTITION_BASE]
    return [*_of_topic(pipeline, left, ours, dimensions), *_of_topic(pipeline, right, theirs, dimensions)]


def _of_topic(
    pipeline: Pipeline, side: Pipeline, records: Sequence[RawRecord], dimensions: At
) -> list[EvaluatedRecord]:
    parsed = [parse(record.value, side.source) for record in records]
    whole = ((item.values, raw) for raw, item in zip(records, parsed, strict=True) if item.reason is None)
    found = iter(evaluate(side, [look_up(side, values, dimensions(raw)) for values, raw in whole]))
    return [
        _judge_record(side, raw, item, joined.on_a_side(pipeline, next(found)) if item.reason is None else None)
        for raw, item in zip(records, parsed, strict=True)
    ]


def _judge_record(
    pipeline: Pipeline, raw: RawRecord, parsed: ParsedRecord, evaluated: Evaluated | None
) -> EvaluatedRecord:
    reason = Reason.EXPRESSION if evaluated is not None and evaluated.failed else parsed.reason
    event = None if reason is not None else parsed.values[pipeline.source.event_time]
    return EvaluatedRecord(raw=raw, parsed=parsed, evaluated=None if reason else evaluated, reason=reason, event=event)


def _is_read(record: RawRecord, border: Mapping[int, int]) -> bool:
    return record.offset < border.get(record.partition, 0)


def _epochs(
    evaluated_records: Sequence[EvaluatedRecord], epochs: Sequence[Mapping[int, int]]
) -> list[list[EvaluatedRecord]]:
    before: list[Mapping[int, int]] = [{}, *epochs[:-1]]
    return [
        [r for r in evaluated_records if _is_read(r.raw, end) and not _is_read(r.raw, start)]
        for start, end in zip(before, epochs, strict=True)
    ]


def _classify(books: _Books, pipeline: Pipeline, record: EvaluatedRecord, watermark: int | None) -> None:
    if record.evaluated is None or record.event is None:
        _enter(books, record, Class.MALFORMED, None)
        return
    if not record.evaluated.passes:
        _enter(books, record, Class.FILTERED, None)
        return
    forgotten, is_twin = _remember(books, pipeline, record, watermark)
    for start, end in pipeline.window.assign_windows(record.event):
        late = forgotten or (watermark is not None and end + grace(pipeline) <= watermark)
        cls = Class.DUPLICATE if is_twin else Class.LATE if late else Class.ACCEPTED
        cls = Class.FUTURE if record.is_future(pipeline) else cls
        _enter(books, record, cls, start)
        if cls is Class.ACCEPTED:
            books.groups.setdefault((start, end, record.evaluated.key), []).append(
                make_counted(record, record.evaluated)
            )


def _remember(books: _Books, pipeline: Pipeline, record: EvaluatedRecord, watermark: int | None) -> tuple[bool, bool]:
    """Return whether a record is too old for its id to be known, and whether its twin was there before; note its id."""
    name, event = pipeline.source.record_id, record.event
    if name is None or event is None or record.is_future(pipeline):
        return False, False
    remembered = compute_oldest_remembered(pipeline, watermark)
    if remembered is not None and event < remembered:
        return True, False
    twin = (record.parsed.values[name], event)
    is_twin = twin in books.seen
    books.seen.add(twin)
    return False, is_twin


def make_counted(record: EvaluatedRecord, evaluated: Evaluated) -> Counted:
    """Return what the measures look at in a record, and its place in the log."""
    return evaluated.values, (record.event or 0, record.raw.partition, record.raw.offset)


def _enter(books: _Books, record: EvaluatedRecord, cls: Class, start: int | None) -> None:
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


def _watermark(
    pipeline: Pipeline, evaluated_records: Sequence[EvaluatedRecord], border: Mapping[int, int], before: int | None
) -> int | None:
    """Return the minimum over partitions of the newest event time read, less the out-of-orderness; never back."""
    newest: dict[int, int | None] = {}
    for record in evaluated_records:
        seen = newest.setdefault(record.raw.partition, None)
        if _is_read(record.raw, border) and record.event is not None and not record.is_future(pipeline):
            newest[record.raw.partition] = max(record.event, record.event if seen is None else seen)
    unread = {record.raw.partition for record in evaluated_records if not _is_read(record.raw, border)}
    if any(newest[partition] is None for partition in unread):
        return before
    active = [event for event in newest.values() if event is not None]
    if not active:
        return before
    reached = min(active) - pipeline.lateness.out_of_orderness_micros
    return reached if before is None else max(before, reached)


def sessions_of(alone: Mapping[Group, list[Counted]]) -> dict[Group, list[Counted]]:
    """Return the groups of sessions from those of rows alone: of a key, those that touch are one."""
    found: dict[Group, list[Counted]] = {}
    for key in {group[2] for group in alone}:
        mine = {Interval(*group[:2]): counted for group, counted in alone.items() if group[2] == key}
        for start, end in merge_intervals(mine):
            inside = (counted for one, counted in sorted(mine.items()) if start <= one.start and one.end <= end)
            found[start, end, key] = [row for counted in inside for row in counted]
    return found


def _result(pipeline: Pipeline, books: _Books, unknown: int, watermarks: tuple[int | None, ...]) -> Result:
    groups = sessions_of(books.groups) if pipeline.window.merges else books.groups
    measures = measures_of(pipeline, groups)
    rows = {group: ResultRow(n=len(counted), measures=measures[group]) for group, counted in groups.items()}
    counts = {cls: books.counts[cls] for cls in Class}
    return Result(
        rows=rows,
        ledger=frozenset(books.ledger),
        counts=counts,
        unknown=unknown,
        watermarks=watermarks,
        id_conflicts=len(books.seen) - len({name for name, _ in books.seen}),
    )


def measures_of(pipeline: Pipeline, groups: Mapping[Group, Sequence[Counted]]) -> dict[Group, dict[str, Any]]:
    """Compute every measure from all records of a group at once, without partial aggregates."""
    if pipeline.join is not None:
        return joined.results(pipeline, {group: (group[2], counted) for group, counted in groups.items()})
    return {
        group: finish_values(pipeline, states_of(pipeline, *zip(*counted, strict=True)))
        for group, counted in groups.items()
    }
