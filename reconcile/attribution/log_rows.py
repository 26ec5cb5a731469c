"""Records of some windows, read once from the log, and rows with a claimed cause, folded again from them.

Records are read at the offsets that the batch index lists. Stretches of event time are grouped into portions with a
limited number of records, so that memory stays bounded however many windows differ. Within a portion each partition is
scanned once, and a record whose event time is in none of the stretches is dropped before it is parsed strictly (a fifth
of the cost); one without a readable event time is kept.

Rows are folded in plain Python. For one row, or one component of sessions: the records that the stream's ledger does
not list are folded alone, then with those of each further class, in the order of the stages; finally those that batch
counts. A record's class comes from the stream's ledger at its position and window, everything else from the log.

Source:
    For twins: `cutover.reconcile.comparison.sides`.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import duckdb
import pyarrow as pa

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.times import EPOCH_FORMATS, convert_epoch_time
from cutover.definition.model.topic import Topic, list_fields
from cutover.definition.windows.window_fn import Interval, merge_intervals
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import IndexKind
from cutover.log.cut import LogId
from cutover.log.kafka import Ranges, RawRecord
from cutover.log.topic_partitions import find_source
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.comparison.layout import same, to_plain
from cutover.records.classes import Class
from cutover.records.parsing.parsed_record import InvalidValueError
from cutover.records.reading import scan
from cutover.records.reading.scan import Offsets, OffsetSpan
from cutover.records.reference import ResultRow
from cutover.records.reference.run import Group, PlacedRecord, Twin, fold_records
from cutover.records.reference.scalars import parse_value

PORTION = 200_000
"""Maximum number of records per portion, as counted in the index; a single window may have more."""

MOST = 64
"""Maximum number of ranges per partition and portion: each range costs a connection, each gap costs its records."""

_WHERE = f"""
    SELECT n, _partition, first_offset, last_offset, _n
    FROM index_of_rows JOIN stretches ON epoch_us(window_start) < ends AND epoch_us(window_end) > first
    WHERE _kind = '{IndexKind.RANGE}' AND list_contains(?, _run) ORDER BY ALL
"""  # noqa: S608 -- a constant


class LogReader(Protocol):
    """Methods of `LogClient` that attribution needs."""

    def describe(self, topic: str) -> LogId:
        """Read the ids of the cluster and of the topic from the broker."""

    def earliest(self, topic: str) -> dict[int, int]:
        """Return the earliest offset that each partition still has."""

    def positions(self, topic: str, ranges: Ranges, isolation: str) -> Iterator[tuple[int, int, int]]:
        """Yield partition, offset and log timestamp of the records of ranges of several partitions."""

    def read_ranges(self, topic: str, ranges: Ranges, isolation: str) -> Iterator[RawRecord]:
        """Yield the records of ranges of several partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPortion:
    """Stretches of event time whose records are read together, with the offsets of these records."""

    stretches: tuple[int, ...]  # indexes
    reads: tuple[Offsets, ...]  # disjoint


def list_read_portions(
    lake: PipelineLake,
    connection: duckdb.DuckDBPyConnection,
    run: BatchRun,
    stretches: Sequence[Interval],
) -> list[ReadPortion]:
    """Return the offsets of all records of some stretches of event time, up to the cut of a batch run.

    Args:
        lake: Pipeline whose log is read.
        connection: Any; the function adds the views `index_of_rows` and `stretches` (`n`, `first`, `ends`).
        run: The compared run: index rows of it and of earlier runs are used.
        stretches: `[first, end)`, ascending.

    Raises:
        LakeError: The index cannot be read.
    """
    delta.relation(connection, "index_of_rows", lake.batch_uri("batch_index"))
    columns = {"n": range(len(stretches)), "first": [s.start for s in stretches], "ends": [s.end for s in stretches]}
    connection.register("stretches", pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()}))
    rows = connection.execute(_WHERE, [[earlier_run.run_id for earlier_run in list_runs_up_to(lake, run)]]).fetchall()
    spans: dict[int, list[OffsetSpan]] = {n: [] for n in range(len(stretches))}
    records = dict.fromkeys(spans, 0)
    for n, partition, first_offset, last_offset, count in rows:
        end = min(last_offset, run.cut.get(partition, 0) - 1)
        if first_offset <= end:
            spans[n].append(OffsetSpan(partition=partition, first_offset=first_offset, last_offset=end))
            records[n] += count
    return [
        ReadPortion(
            stretches=neighbours, reads=scan.plan_reads((s for n in neighbours for s in spans[n]), max_ranges=MOST)
        )
        for neighbours in _group_neighbours(records)
    ]


def list_runs_up_to(lake: PipelineLake, run: BatchRun) -> list[BatchRun]:
    """Return the runs up to and including a run, oldest first."""
    runs = batch_runs.read_effective_runs(lake)
    return runs[: [recorded_run.run_id for recorded_run in runs].index(run.run_id) + 1]


def _group_neighbours(records: Mapping[int, int]) -> Iterator[tuple[int, ...]]:
    """Yield groups of neighbouring stretches with at most `PORTION` records, if a group has more than one stretch."""
    group: list[int] = []
    total = 0
    for n, count in records.items():
        if group and total + count > PORTION:
            yield tuple(group)
            group, total = [], 0
        group.append(n)
        total += count
    if group:
        yield tuple(group)


def read_portion(
    log: LogReader, pipeline: Pipeline, run: BatchRun, portion: ReadPortion, stretches: Sequence[Interval]
) -> Iterator[RawRecord]:
    """Yield the records of a portion whose event time is in one of its stretches, or cannot be read.

    Raises:
        LogError: No broker responds, or an offset has left the log.
    """
    spans = merge_intervals(stretches[n] for n in portion.stretches)
    starts = [span.start for span in spans]
    for offsets in portion.reads:
        topics = {partition: find_source(pipeline, partition) for partition in offsets}
        for record in log.read_ranges(run.topic, offsets, run.isolation):
            event_micros = parse_event_time(record.value, topics[record.partition])
            span_index = -1 if event_micros is None else bisect_right(starts, event_micros) - 1
            if event_micros is None or (span_index >= 0 and event_micros < spans[span_index].end):
                yield record


def parse_event_time(value: bytes | None, topic: Topic) -> int | None:
    """Parse the event time of a well-formed record, microseconds; None if only the parser can decide."""
    try:
        fields = json.loads((value or b"").decode())
    except (ValueError, RecursionError):
        return None
    column = next(item for item in list_fields(topic) if item.name == topic.event_time)
    if column.parse == "from_json" and any(isinstance(step, int) for step in column.path):
        return None  # another element may be one that `from_json` does not read: then it reads none of the array
    event = fields if isinstance(fields, dict) else None
    for step in column.path:
        event = _select_step(event, step)
    try:
        if column.time_format not in EPOCH_FORMATS:
            return int(parse_value(event, "timestamp", column.time_format)) if isinstance(event, str) else None
    except InvalidValueError:
        return None
    if not isinstance(event, int) or isinstance(event, bool) or not -(2**63) <= event < 2**63:
        return None  # `from_json` keeps an earlier value of the name, if there is one
    return convert_epoch_time(event, column.time_format)


def _select_step(value: Any, step: str | int) -> Any:
    if isinstance(step, int):
        return value[step] if isinstance(value, list) and step < len(value) else None
    return value.get(step) if isinstance(value, dict) else None


Key = tuple[Any, ...]
Position = tuple[int, int, int]  # partition, offset, start of the window (for a session: of the record alone)
Rows = Mapping[Interval, ResultRow]


@dataclass(frozen=True, slots=True)
class Place:
    """Row that is compared, or the sessions that are compared together."""

    interval: Interval  # the window; for sessions the component
    key: Key


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedPlace:
    """Results that the log's records yield for one place."""

    stages: Sequence[Rows]  # of the records that the stream counted, then with each further class
    batch: Rows  # of the records that batch counts, from the log alone
    are_twins_sound: bool  # the stream counted at most one record per id, and dropped none without reason


@dataclass(slots=True)
class _Group:
    """Counts of the records with one id in one window."""

    accepted: int = 0
    late: int = 0
    duplicate: int = 0

    @property
    def is_sound(self) -> bool:
        return self.accepted <= 1 and (not self.duplicate or self.accepted + self.late > 0)


@dataclass(slots=True)
class _PlaceRecords:
    """Records of one place, by stage."""

    stages: list[list[PlacedRecord]]
    batch: list[PlacedRecord] = field(default_factory=list)
    is_sound: bool = True


def fold_places(
    pipeline: Pipeline,
    records: Iterable[PlacedRecord],
    ledger: Mapping[Position, str],
    places: Sequence[Place],
    classes: Sequence[str],
) -> dict[Place, FoldedPlace]:
    """Fold the records of some places from the log.

    Args:
        pipeline: The definition.
        records: All records of the places' windows, twins under other keys included; others are ignored.
        ledger: Classes of the records that the stream did not count.
        places: Places of one pipeline.
        classes: Classes that further stages merge, in order.
    """
    rows = [record for record in records if not record.is_future or ledger.get(_position(record)) == Class.FUTURE]
    later, groups = _find_later_twins(rows), _group_by_id(rows, ledger)
    finder = _PlaceFinder(pipeline, places)
    records_by_place = {place: _PlaceRecords(stages=[[] for _ in range(len(classes) + 1)]) for place in places}
    for record in rows:
        place = finder.find_place(record.group)
        if place is None:
            continue
        is_twin, class_name = _position(record)[:2] in later, ledger.get(_position(record), str(Class.ACCEPTED))
        place_records = records_by_place[place]
        place_records.is_sound &= record.twin is None or groups[record.group[0], record.twin].is_sound
        for n in range(len(classes) + 1):
            # Batch does not count a late record that it calls a duplicate, so the stream does not miss it.
            if class_name == Class.ACCEPTED or (
                class_name in classes[:n] and not (is_twin and class_name == Class.LATE)
            ):
                place_records.stages[n].append(record)
        if not is_twin and not record.is_future:
            place_records.batch.append(record)
    return _fold_records(pipeline, records_by_place)


def matches_log(expected: Rows, rows: Sequence[tuple[Interval, ResultRow]]) -> bool:
    """Return whether rows of a table equal those from the log: windows, number of records, every measure."""
    rows_by_window = dict(rows)
    if len(rows_by_window) != len(rows) or rows_by_window.keys() != expected.keys():
        return False
    return all(_is_equal(row, rows_by_window[window]) for window, row in expected.items())


def _is_equal(expected: ResultRow, row: ResultRow) -> bool:
    return expected.n == row.n and all(same(to_plain(v), row.measures[name]) for name, v in expected.measures.items())


def _position(record: PlacedRecord) -> Position:
    return (*record.position, record.group[0])


def _find_later_twins(rows: Iterable[PlacedRecord]) -> set[tuple[int, int]]:
    """Return the positions of records that have a twin (same id and event time) at a lower position in the log."""
    lowest: dict[Twin, tuple[int, int]] = {}
    for record in rows:
        if record.twin is not None and not record.is_future:
            lowest[record.twin] = min(lowest.get(record.twin, record.position), record.position)
    return {
        record.position
        for record in rows
        if record.twin is not None and record.position != lowest.get(record.twin, record.position)
    }


def _group_by_id(rows: Iterable[PlacedRecord], ledger: Mapping[Position, str]) -> dict[tuple[int, Twin], _Group]:
    groups: dict[tuple[int, Twin], _Group] = {}
    for record in rows:
        if record.twin is not None:
            group = groups.setdefault((record.group[0], record.twin), _Group())
            class_name = ledger.get(_position(record))
            group.accepted += class_name is None
            group.late += class_name == Class.LATE
            group.duplicate += class_name == Class.DUPLICATE
    return groups


class _PlaceFinder:
    """Index of places, to find the one that a record belongs to."""

    def __init__(self, pipeline: Pipeline, places: Sequence[Place]) -> None:
        self._sessions = pipeline.window.merges
        self._of_key: dict[Key, list[Place]] = {}
        self._exact = {(place.interval.start, place.key): place for place in places}
        for place in places:
            self._of_key.setdefault(place.key, []).append(place)

    def find_place(self, group: Group) -> Place | None:
        """Find the place with this window; for sessions the one that it overlaps."""
        start, end, key = group
        plain_key = tuple(map(to_plain, key))
        if not self._sessions:
            return self._exact.get((start, plain_key))
        touching = (
            place
            for place in self._of_key.get(plain_key, ())
            if start <= place.interval.end and place.interval.start <= end
        )
        return next(touching, None)


def _fold_records(pipeline: Pipeline, records_by_place: Mapping[Place, _PlaceRecords]) -> dict[Place, FoldedPlace]:
    """Fold the records of all places stage by stage, because one fold of all costs little more than one."""
    stages = len(next(iter(records_by_place.values())).stages) if records_by_place else 0
    rows_by_stage = [
        _fold_by_place(
            pipeline, records_by_place, [place_records.stages[n] for place_records in records_by_place.values()]
        )
        for n in range(stages)
    ]
    batch = _fold_by_place(
        pipeline, records_by_place, [place_records.batch for place_records in records_by_place.values()]
    )
    return {
        place: FoldedPlace(
            stages=[stage_rows[place] for stage_rows in rows_by_stage],
            batch=batch[place],
            are_twins_sound=place_records.is_sound,
        )
        for place, place_records in records_by_place.items()
    }


def _fold_by_place(
    pipeline: Pipeline, places: Iterable[Place], records: Sequence[Sequence[PlacedRecord]]
) -> dict[Place, dict[Interval, ResultRow]]:
    rows = fold_records(pipeline, [record for place_records in records for record in place_records])
    rows_by_place: dict[Place, dict[Interval, ResultRow]] = {place: {} for place in places}
    finder = _PlaceFinder(pipeline, list(rows_by_place))
    for group, row in rows.items():
        place = finder.find_place(group)
        if place is not None:
            rows_by_place[place][Interval(*group[:2])] = row
    return rows_by_place
