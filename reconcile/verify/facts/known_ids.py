"""Ids that a stream had seen before some of its epochs, as its epoch log retains them.

For event minutes whose ids have left the epoch log, the first record of an id can no longer be determined. There, a
record that the ledger lists as a duplicate counts as one.
"""

# ruff: noqa: S608 -- our constant names, and numbers

from collections.abc import Iterable, Sequence
from typing import Any

from cutover.lake.epochs.row_kinds import RowKind, kind_sql
from cutover.log.kafka import RawRecord
from cutover.reconcile.verify.facts.facts import Twin
from cutover.reconcile.verify.facts.segments import Segment
from cutover.reconcile.verify.facts.source import ALL_ROWS, Source
from cutover.records.classes import Class
from cutover.records.parsing.limits import MAX_MICROS
from cutover.records.reference import UncountedPair
from cutover.records.reference.parse import parse_record
from cutover.timestamps import to_micros

_IDS = kind_sql(RowKind.IDS)


def find_earlier_ids(
    source: Source, segment: Segment, records: Sequence[RawRecord], ledger: Iterable[UncountedPair]
) -> frozenset[Twin]:
    """Find the ids and event times of some records that appear in earlier epochs.

    Args:
        source: An open epoch log.
        segment: The epochs.
        records: The records that these epochs read.
        ledger: The ledger's rows of these epochs (late, duplicate, ...).
    """
    topic = source.pipeline.source
    if topic.record_id is None:
        return frozenset()
    values = {(r.partition, r.offset): parse_record(r.value, topic).values for r in records}
    twins = {
        at: (value[topic.record_id], value[topic.event_time])
        for at, value in values.items()
        if value.get(topic.event_time) is not None
    }
    earlier_ids = _read_known_ids(source, segment.first_epoch, {event for _, event in twins.values()})
    duplicates = {(row.partition, row.offset) for row in ledger if row.cls is Class.DUPLICATE}
    accepted_twins = {twin for at, twin in twins.items() if at not in duplicates}
    forgotten_time = _find_forgotten_time(source)
    forgotten_duplicates = {twins[at] for at in duplicates if at in twins and twins[at][1] < forgotten_time}
    return frozenset(earlier_ids | (forgotten_duplicates - accepted_twins))


def read_new_ids(source: Source, segment: Segment) -> frozenset[Twin]:
    """Read the ids that appear first in some epochs, without event minutes that the epoch log has forgotten."""
    if source.pipeline.source.record_id is None:
        return frozenset()
    query = f"""
        SELECT id, epoch_us(event_time) FROM (
            SELECT unnest(_ids, recursive := true) FROM {ALL_ROWS}
            WHERE {_IDS} AND _epoch BETWEEN {int(segment.first_epoch)} AND {int(segment.last_epoch)}
        )
    """
    rows = source.connection.execute(query).fetchall()
    return select_retained_ids(source, ((_plain(name), event) for name, event in rows))


def select_retained_ids(source: Source, twins: Iterable[Twin]) -> frozenset[Twin]:
    """Select the ids whose event minutes have not left the epoch log."""
    if source.pipeline.source.record_id is None:
        return frozenset()
    forgotten = _find_forgotten_time(source)
    return frozenset(twin for twin in twins if twin[1] >= forgotten)


def _read_known_ids(source: Source, epoch: int, events: set[int]) -> set[Twin]:
    """Read the ids of earlier epochs at some event times, as far as the epoch log retains them."""
    if not events:
        return set()
    event_list = ", ".join(str(int(event)) for event in sorted(events))
    query = f"""
        SELECT id, epoch_us(event_time) FROM (
            SELECT unnest(_ids, recursive := true) FROM {ALL_ROWS} WHERE {_IDS} AND _epoch < {int(epoch)}
        ) WHERE epoch_us(event_time) IN ({event_list})
    """
    return {(_plain(name), event) for name, event in source.connection.execute(query).fetchall()}


def _find_forgotten_time(source: Source) -> int:
    """Return the event time before which ids may have left the epoch log, microseconds."""
    query = f"SELECT max(epoch_us(window_start)) FROM {ALL_ROWS} WHERE {_IDS} AND _class = 'forgotten'"
    (newest_forgotten,) = source.connection.execute(query).fetchall()[0]
    return -MAX_MICROS if newest_forgotten is None else int(newest_forgotten)


def _plain(name: Any) -> Any:
    """Convert an id to a plain Python value: a time becomes microseconds."""
    return to_micros(name) if hasattr(name, "tzinfo") else name
