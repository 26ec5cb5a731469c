"""Records that the schema does not describe: the first with an unknown field, the first with an invalid field."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.topic import Field, Topic, list_fields
from cutover.engine import queries
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.log import topic_partitions
from cutover.log.kafka import LogClient, RawRecord
from cutover.output.cells import visible
from cutover.reconcile.watch.facts import SchemaMismatch
from cutover.records.classes import Class, Reason
from cutover.records.reference.parse import parse_record

MAX_RECORDS = 50_000
"""Records of an epoch that are searched for the first one with an unknown field."""

MAX_NAME_LENGTH = 63
"""Characters of an unknown field's name that are shown, since it comes from the record."""

_FIRST_MALFORMED = """
    SELECT _epoch, p.partition, p."offset", p.reason
    FROM (SELECT _epoch, unnest(_positions) AS p FROM rows WHERE _class = 'malformed' AND _epoch >= ?)
    WHERE p.reason IN (?, ?) ORDER BY _epoch, p.partition, p."offset" LIMIT 1
"""


def find_schema_mismatches(
    pipeline: Pipeline, epoch_log: EpochLog, log: LogClient, epochs: Sequence[EpochRecord]
) -> Iterator[SchemaMismatch]:
    """Yield the first record of each kind in some epochs, oldest first.

    Raises:
        LakeError: The table cannot be read.
        LogError: The log does not answer, or no longer has the records.
    """
    if any(epoch.counts.get(Class.MALFORMED) for epoch in epochs):
        yield from _find_malformed(pipeline, epoch_log, log, epochs[0].epoch)
    with_unknown_fields = next((epoch for epoch in epochs if epoch.unknown), None)
    if with_unknown_fields is not None:
        yield from _find_unknown_field(pipeline, log, with_unknown_fields)


def describe_mismatch(value: bytes | None, topic: Topic) -> str | None:
    """Describe the field of a record that does not match the schema; None if no single field shows it."""
    for name in _list_unknown_fields(value, topic):
        return f"field `{visible(name)[:MAX_NAME_LENGTH]}` is not in the schema"
    # The event time first, since every narrowed topic needs it.
    for item in sorted(list_fields(topic), key=lambda item: item.name != topic.event_time):
        reason = parse_record(value, _narrow_topic(topic, item)).reason
        if reason in {Reason.TYPE, Reason.MISSING}:
            problem = "is missing" if reason is Reason.MISSING else f"is no {item.type}"
            return f"field `{item.name}` {problem}"
    return None


def _narrow_topic(topic: Topic, item: Field) -> Topic:
    """Return the topic with one field of its schema, and the event time, which every topic has."""
    column = f"`{item.name}` {item.type}" + ("" if item.nullable else " NOT NULL")
    time = "" if item.name == topic.event_time else f", `{topic.event_time}` timestamp"
    return replace(topic, schema=column + time)


def _list_unknown_fields(value: bytes | None, topic: Topic) -> list[str]:
    if value is None or not parse_record(value, topic).unknown:
        return []
    return sorted(set(json.loads(value)) - {item.name for item in list_fields(topic)})


def _find_malformed(
    pipeline: Pipeline, epoch_log: EpochLog, log: LogClient, first_epoch: int
) -> Iterator[SchemaMismatch]:
    connection = queries.connect()
    newest = epoch_log.newest()
    epoch_log.relation(connection, "rows", epoch=-1 if newest is None else newest.epoch)
    row = connection.execute(_FIRST_MALFORMED, [first_epoch, Reason.TYPE, Reason.MISSING]).fetchone()
    if row is None:
        return
    _, partition, offset, reason = row
    malformed = next(iter(log.read(topic_partitions.name_log(pipeline), {partition: [offset]})), None)
    topic = topic_partitions.find_source(pipeline, partition)
    description = None if malformed is None else describe_mismatch(malformed.value, topic)
    yield SchemaMismatch(
        description=description or f"a field does not fit ({reason})", partition=partition, offset=offset
    )


def _find_unknown_field(pipeline: Pipeline, log: LogClient, epoch: EpochRecord) -> Iterator[SchemaMismatch]:
    ranges = {p: (epoch.start.get(p, 0), end) for p, end in epoch.end.items()}
    record = _find_first(log.read_ranges(epoch.topic, ranges), pipeline)
    if record is not None:
        topic = topic_partitions.find_source(pipeline, record.partition)
        description = describe_mismatch(record.value, topic) or "an unknown field"
        yield SchemaMismatch(description=description, partition=record.partition, offset=record.offset)


def _find_first(records: Iterable[RawRecord], pipeline: Pipeline) -> RawRecord | None:
    """Find the first record with an unknown field, of the lowest partition that has one, in a bounded search."""
    first_by_partition: dict[int, RawRecord] = {}
    for _, record in zip(range(MAX_RECORDS), records, strict=False):
        if record.partition in first_by_partition:
            continue
        if parse_record(record.value, topic_partitions.find_source(pipeline, record.partition)).unknown:
            first_by_partition[record.partition] = record
    return first_by_partition[min(first_by_partition)] if first_by_partition else None
