"""Records that the schema does not describe: the first with an unknown field, the first malformed by its fields."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.schema import Field, fields
from cutover.definition.model.topic import Topic
from cutover.engine import queries
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.log import topic_partitions
from cutover.log.kafka import LogClient, RawRecord
from cutover.output.cells import visible
from cutover.reconcile.watch.facts import Unfit
from cutover.records.classes import Class, Reason
from cutover.records.reference.parse import parse

MOST = 50_000
"""Records of an epoch that are looked through for the first one with an unknown field."""

LONGEST = 63
"""Characters of an unknown field's name that are shown: it comes from the record."""

_FIRST = """
    SELECT _epoch, p.partition, p."offset", p.reason
    FROM (SELECT _epoch, unnest(_positions) AS p FROM rows WHERE _class = 'malformed' AND _epoch >= ?)
    WHERE p.reason IN (?, ?) ORDER BY _epoch, p.partition, p."offset" LIMIT 1
"""


def find_unfit_records(
    pipeline: Pipeline, epochs: EpochLog, log: LogClient, recent: Sequence[EpochRecord]
) -> Iterator[Unfit]:
    """Yield the first record of each kind among some epochs, oldest first.

    Raises:
        LakeError: The table cannot be read.
        LogError: The log does not answer, or no longer holds the records.
    """
    if any(record.counts.get(Class.MALFORMED) for record in recent):
        yield from _find_malformed(pipeline, epochs, log, recent[0].epoch)
    surprised = next((record for record in recent if record.unknown), None)
    if surprised is not None:
        yield from _find_unknown(pipeline, log, surprised)


def describe_mismatch(value: bytes | None, topic: Topic) -> str | None:
    """Return which field of a record does not fit, and how; None if that cannot be told by one field."""
    for name in _list_unknown_fields(value, topic):
        return f"field `{visible(name)[:LONGEST]}` is not in the schema"
    own = [item for item in fields(topic) if item.name == topic.event_time]
    others = [item for item in fields(topic) if item.name != topic.event_time]
    for item in (*own, *others):
        reason = parse(value, _narrow_topic(topic, item)).reason
        if reason in {Reason.TYPE, Reason.MISSING}:
            wrong = "is missing" if reason is Reason.MISSING else f"is no {item.type}"
            return f"field `{item.name}` {wrong}"
    return None


def _narrow_topic(topic: Topic, item: Field) -> Topic:
    """Return the topic with one field of its schema, and the event time, which every topic has."""
    own = f"`{item.name}` {item.type}" + ("" if item.nullable else " NOT NULL")
    time = "" if item.name == topic.event_time else f", `{topic.event_time}` timestamp"
    return replace(topic, schema=own + time)


def _list_unknown_fields(value: bytes | None, topic: Topic) -> list[str]:
    if value is None or not parse(value, topic).unknown:
        return []
    return sorted(set(json.loads(value)) - {item.name for item in fields(topic)})


def _find_malformed(pipeline: Pipeline, epochs: EpochLog, log: LogClient, since: int) -> Iterator[Unfit]:
    connection = queries.connect()
    newest = epochs.newest()
    epochs.relation(connection, "rows", epoch=-1 if newest is None else newest.epoch)
    row = connection.execute(_FIRST, [since, Reason.TYPE, Reason.MISSING]).fetchone()
    if row is None:
        return
    _, partition, offset, reason = row
    found = next(iter(log.read(topic_partitions.log_of(pipeline), {partition: [offset]})), None)
    what = None if found is None else describe_mismatch(found.value, topic_partitions.source_of(pipeline, partition))
    yield Unfit(what=what or f"a field does not fit ({reason})", partition=partition, offset=offset)


def _find_unknown(pipeline: Pipeline, log: LogClient, record: EpochRecord) -> Iterator[Unfit]:
    ranges = {p: (record.start.get(p, 0), end) for p, end in record.end.items()}
    found = _first_unknown(log.read_ranges(record.topic, ranges), pipeline)
    if found is not None:
        what = (
            describe_mismatch(found.value, topic_partitions.source_of(pipeline, found.partition)) or "an unknown field"
        )
        yield Unfit(what=what, partition=found.partition, offset=found.offset)


def _first_unknown(records: Iterable[RawRecord], pipeline: Pipeline) -> RawRecord | None:
    """Return the first record of the lowest partition that has one, among those looked through."""
    first: dict[int, RawRecord] = {}
    for _, record in zip(range(MOST), records, strict=False):
        if (
            record.partition not in first
            and parse(record.value, topic_partitions.source_of(pipeline, record.partition)).unknown
        ):
            first[record.partition] = record
    return first[min(first)] if first else None
