"""The log's own rows of some windows: where they lie by the batch index, and these records, read once.

Stretches of event time are put into portions that hold so many records at most, so that memory stays bounded however
many windows differ. Within a portion each partition is swept once, and a record whose event time lies in none of the
stretches is dropped before it is parsed strictly (a fifth of the cost); what cannot be told is kept.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import duckdb
import pyarrow as pa

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.times import UNITS
from cutover.definition.model.topic import Topic
from cutover.definition.windows.window_fn import Interval, merge_intervals
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun
from cutover.lake.paths import batch_uri
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import IndexKind
from cutover.log.cut import LogId
from cutover.log.kafka import Ranges, RawRecord
from cutover.log.topic_partitions import source_of
from cutover.records.reading import segments
from cutover.records.reading.scan import Offsets
from cutover.records.reading.segments import OffsetSpan
from cutover.records.reference.values import UnfitError, value_of
from cutover.settings import Settings

PORTION = 200_000
"""Records that one sweep keeps at most, as the index counts them; a single window may hold more."""

MOST = 64
"""Ranges of one partition that a portion is read by: further ones cost a connection each, gaps cost their records."""

_WHERE = f"""
    SELECT n, _partition, first_offset, last_offset, _n
    FROM index_of_rows JOIN stretches ON epoch_us(window_start) < ends AND epoch_us(window_end) > first
    WHERE _kind = '{IndexKind.RANGE}' AND list_contains(?, _run) ORDER BY ALL
"""  # noqa: S608 -- a constant


class LogReader(Protocol):
    """What is asked of the log; `LogClient` answers it."""

    def describe(self, topic: str) -> LogId:
        """Ask for cluster id and topic id."""

    def earliest(self, topic: str) -> dict[int, int]:
        """Return the first offset that each partition still holds."""

    def positions(self, topic: str, ranges: Ranges, isolation: str) -> Iterator[tuple[int, int, int]]:
        """Yield partition, offset and log timestamp of the records of ranges of several partitions."""

    def read_ranges(self, topic: str, ranges: Ranges, isolation: str) -> Iterator[RawRecord]:
        """Yield the records of ranges of several partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPortion:
    """Stretches of event time whose records are read together, by their numbers, and where these lie."""

    stretches: tuple[int, ...]
    reads: tuple[Offsets, ...]  # disjoint


def portions(
    settings: Settings,
    pipeline: Pipeline,
    connection: duckdb.DuckDBPyConnection,
    run: BatchRun,
    stretches: Sequence[Interval],
) -> list[ReadPortion]:
    """Return where all records of some stretches of event time lie, up to the cut of a batch run.

    Args:
        settings: Where the lake lies.
        pipeline: The definition.
        connection: Any; gets the views `index_of_rows` and `stretches` (`n`, `first`, `ends`).
        run: The run that is compared: scans of it and of those before it are believed.
        stretches: `[first, end)`, ascending.

    Raises:
        LakeError: The index cannot be read.
    """
    delta.relation(connection, "index_of_rows", batch_uri(settings, pipeline, "batch_index"))
    columns = {"n": range(len(stretches)), "first": [s.start for s in stretches], "ends": [s.end for s in stretches]}
    connection.register("stretches", pa.table({name: pa.array(of, pa.int64()) for name, of in columns.items()}))
    rows = connection.execute(_WHERE, [[each.run_id for each in list_runs_up_to(settings, pipeline, run)]]).fetchall()
    found: dict[int, list[OffsetSpan]] = {n: [] for n in range(len(stretches))}
    records = dict.fromkeys(found, 0)
    for n, partition, first, last, count in rows:
        end = min(last, run.cut.get(partition, 0) - 1)
        if first <= end:
            found[n].append(OffsetSpan(partition=partition, first=first, last=end))
            records[n] += count
    return [
        ReadPortion(stretches=some, reads=segments.reads((s for n in some for s in found[n]), most=MOST))
        for some in _group_neighbours(records)
    ]


def list_runs_up_to(settings: Settings, pipeline: Pipeline, run: BatchRun) -> list[BatchRun]:
    """Oldest first, with the named run as the last one."""
    known = batch_runs.runs(settings, pipeline)
    return known[: [each.run_id for each in known].index(run.run_id) + 1]


def _group_neighbours(records: Mapping[int, int]) -> Iterator[tuple[int, ...]]:
    """Yield neighbours that hold so many records together that memory has room for them."""
    chosen: list[int] = []
    total = 0
    for n, count in records.items():
        if chosen and total + count > PORTION:
            yield tuple(chosen)
            chosen, total = [], 0
        chosen.append(n)
        total += count
    if chosen:
        yield tuple(chosen)


def read(
    log: LogReader, pipeline: Pipeline, run: BatchRun, portion: ReadPortion, stretches: Sequence[Interval]
) -> Iterator[RawRecord]:
    """Yield the records of a portion that may have an event time in one of its stretches, and a few more.

    Raises:
        LogError: No broker answers, or an offset has left the log.
    """
    spans = merge_intervals(stretches[n] for n in portion.stretches)
    starts = [span.start for span in spans]
    for offsets in portion.reads:
        topics = {partition: source_of(pipeline, partition) for partition in offsets}
        for record in log.read_ranges(run.topic, offsets, run.isolation):
            event = event_time(record.value, topics[record.partition])
            place = -1 if event is None else bisect_right(starts, event) - 1
            if event is None or (place >= 0 and event < spans[place].end):
                yield record


def event_time(value: bytes | None, topic: Topic) -> int | None:
    """Return the event time that a record has if it is well formed, microseconds; None: only the parser can tell."""
    try:
        found = json.loads((value or b"").decode())
    except (ValueError, RecursionError):
        return None
    given = found.get(topic.event_time) if isinstance(found, dict) else None
    try:
        if topic.time_format == "iso":
            return int(value_of(given, "timestamp", "iso")) if isinstance(given, str) else None
    except UnfitError:
        return None
    return given * UNITS[topic.time_format] if isinstance(given, int) and not isinstance(given, bool) else None
