"""Records of some windows, read once from the log at the offsets that the batch index lists.

Stretches of event time are grouped into portions with a limited number of records, so that memory stays bounded however
many windows differ. Within a portion each partition is scanned once, and a record whose event time is in none of the
stretches is dropped before it is parsed strictly (a fifth of the cost); one without a readable event time is kept.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from cutover.records.reading import scan
from cutover.records.reading.scan import Offsets, OffsetSpan
from cutover.records.reference.scalars import parse_value
from cutover.records.reference.values import InvalidValueError

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
