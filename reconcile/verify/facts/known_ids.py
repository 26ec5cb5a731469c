"""Which ids a stream knew before some of its epochs, as its epoch log holds them; where they are forgotten, its word.

Of event minutes whose ids have left the epoch log nobody can say any more which record was there first; there a record
that the ledger calls a duplicate is taken for one.
"""

# ruff: noqa: S608 -- names of ours, and numbers

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
from cutover.records.reference.parse import parse
from cutover.timestamps import to_micros

_IDS = kind_sql(RowKind.IDS)


def ids_seen_before(
    source: Source, segment: Segment, records: Sequence[RawRecord], ledger: Iterable[UncountedPair]
) -> frozenset[Twin]:
    """Return the ids and event times of some records that earlier epochs had shown.

    Args:
        source: An open epoch log.
        segment: The epochs.
        records: Those that they read.
        ledger: What the epoch log calls late, duplicate, ... of them.
    """
    topic = source.pipeline.source
    if topic.record_id is None:
        return frozenset()
    values = {(r.partition, r.offset): parse(r.value, topic).values for r in records}
    twins = {
        at: (value[topic.record_id], value[topic.event_time])
        for at, value in values.items()
        if value.get(topic.event_time) is not None
    }
    known = _read_known_ids(source, segment.first, {event for _, event in twins.values()})
    called = {(row.partition, row.offset) for row in ledger if row.cls is Class.DUPLICATE}
    inside = {twin for at, twin in twins.items() if at not in called}
    forgotten = _find_forgotten_time(source)
    word = {twins[at] for at in called if at in twins and twins[at][1] < forgotten}
    return frozenset(known | (word - inside))


def ids_first_seen(source: Source, segment: Segment) -> frozenset[Twin]:
    """Return what the epoch log says that some epochs were the first to show, as far as nothing of it is forgotten."""
    if source.pipeline.source.record_id is None:
        return frozenset()
    query = f"""
        SELECT id, epoch_us(event_time) FROM (
            SELECT unnest(_ids, recursive := true) FROM {ALL_ROWS}
            WHERE {_IDS} AND _epoch BETWEEN {int(segment.first)} AND {int(segment.last)}
        )
    """
    rows = source.connection.execute(query).fetchall()
    return ids_kept(source, ((_plain(name), event) for name, event in rows))


def ids_kept(source: Source, twins: Iterable[Twin]) -> frozenset[Twin]:
    """Return those of some ids whose event minutes have not left the epoch log."""
    if source.pipeline.source.record_id is None:
        return frozenset()
    forgotten = _find_forgotten_time(source)
    return frozenset(twin for twin in twins if twin[1] >= forgotten)


def _read_known_ids(source: Source, before: int, events: set[int]) -> set[Twin]:
    """Return what epochs before one have shown at some event times, as far as the epoch log still holds it."""
    if not events:
        return set()
    listed = ", ".join(str(int(event)) for event in sorted(events))
    query = f"""
        SELECT id, epoch_us(event_time) FROM (
            SELECT unnest(_ids, recursive := true) FROM {ALL_ROWS} WHERE {_IDS} AND _epoch < {int(before)}
        ) WHERE epoch_us(event_time) IN ({listed})
    """
    return {(_plain(name), event) for name, event in source.connection.execute(query).fetchall()}


def _find_forgotten_time(source: Source) -> int:
    """Return the event time before which ids may have left the epoch log, microseconds."""
    query = f"SELECT max(epoch_us(window_start)) FROM {ALL_ROWS} WHERE {_IDS} AND _class = 'forgotten'"
    (found,) = source.connection.execute(query).fetchall()[0]
    return -MAX_MICROS if found is None else int(found)


def _plain(name: Any) -> Any:
    """Return an id as plain Python has it: a time in microseconds."""
    return to_micros(name) if hasattr(name, "tzinfo") else name
