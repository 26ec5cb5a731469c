"""Position by the offsets that a consumer group has committed, read without joining it, as far as they prove anything.

A group's offsets are not written in the commit of the table. Read before the table, they are a lower bound if the job
commits its rows at most a known time after them: no time for a consumer that commits offsets after its rows, two
checkpoint intervals for Flink, whose source and sink commit independently of each other once a checkpoint is complete.
The group read again after the table is no upper bound: after a restart, a job may have written rows beyond the offsets
that it commits next. The log's end is one. If both are equal, nothing was left to read, and the position is exact.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaException

from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import make_topic_partition, number_topic_partition
from cutover.log.transient_errors import retry_transient
from cutover.positions.log_check import TopicBounds, read_topic_bounds, tighten_bounds
from cutover.positions.position import Position, PositionReport, UnknownPosition


def read_group_offsets(client: LogClient, group: str, topic: str) -> dict[int, int | None]:
    """Read the next offset that a group has committed for each partition; None: none, or Kafka has removed it.

    Raises:
        LogError: No broker responds, the group may not be read, or the topic does not exist.
    """
    partitions = [make_topic_partition(topic, partition) for partition in client.partitions(topic)]
    consumer = client.consumer(group=group)
    try:
        committed = retry_transient(
            lambda: consumer.committed(partitions, timeout=client.timeout), seconds=client.timeout
        )
    except KafkaException as error:
        raise client.make_unreachable_error(error) from error
    finally:
        consumer.close()
    failed = next((position.error for position in committed if position.error is not None), None)
    if failed is not None:
        raise client.make_unreachable_error(KafkaException(failed))
    return {
        number_topic_partition(topic, position): position.offset if position.offset >= 0 else None
        for position in committed
    }


_NO_VERSION = "No version of a table was read: the bounds hold for rows that were read while the command ran."

_Offsets = Mapping[str, Mapping[int, int | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRequest:
    """Group and topics whose position is asked for."""

    group: str
    topics: tuple[str, ...]
    rows_within: int  # microseconds after its offsets within which the job has committed the rows


def find_group_position(
    client: LogClient, request: GroupRequest, *, read_version: Callable[[], int | None], wait: Callable[[float], None]
) -> PositionReport:
    """Find the bounds of a table whose job commits its offsets to a group.

    Args:
        client: Of the cluster with the group.
        request: Group, topics, and the promise of the job.
        read_version: Reads the newest version of the table; None without versions, or without a table.
        wait: Waits for some seconds.

    Raises:
        LogError: No broker responds, or a topic does not exist.
    """
    ids = {topic: client.topic_id(topic) for topic in request.topics}
    before = {topic: read_group_offsets(client, request.group, topic) for topic in request.topics}
    wait(request.rows_within / 1e6)
    version = read_version()
    after = {topic: read_group_offsets(client, request.group, topic) for topic in request.topics}
    bounds = read_topic_bounds(client, request.topics)
    source = f"consumer group `{request.group}`, read before and after the table"
    reason = find_group_doubt(request.topics, before, after, bounds)
    if reason is None and any(bounds[topic].topic_id != topic_id for topic, topic_id in ids.items()):
        reason = "a topic was created again while the group was read"
    if reason is not None:
        return PositionReport(position=UnknownPosition(reason), source=source)
    lower = {topic: {p: offset or 0 for p, offset in offsets.items()} for topic, offsets in before.items()}
    position = Position(
        topics=lower,
        upto={topic: {p: bounds[topic].ends[p] for p in offsets} for topic, offsets in lower.items()},
        watermark=None,
        table_version=version,
        at=None,
        topic_ids=ids,
    )
    moved = sum(after[topic][p] != offset for topic, offsets in before.items() for p, offset in offsets.items())
    notes = [f"The group has moved in {moved} of its partitions meanwhile."] if moved else []
    notes += [_NO_VERSION] if version is None else []
    return tighten_bounds(client, PositionReport(position=position, source=source, notes=tuple(notes)), bounds)


def find_group_doubt(
    topics: Sequence[str], before: _Offsets, after: _Offsets, bounds: Mapping[str, TopicBounds]
) -> str | None:
    """Find why the offsets of a group are no bounds: none committed, reset, or beyond the log's end."""
    for topic in topics:
        if topic not in bounds or not before[topic].keys() == after[topic].keys() <= bounds[topic].ends.keys():
            return f"the partitions of topic {topic} changed while the group was read"
        if any(bounds[topic].ends.values()) and all(offset is None for offset in before[topic].values()):
            return f"the group has committed no offset of topic {topic}, or Kafka has removed it"
        for partition, offset in sorted(before[topic].items()):
            later, end = after[topic][partition], bounds[topic].ends[partition]
            place = f"topic {topic}, partition {partition}"
            if offset is not None and (later is None or later < offset):
                return f"the group went back from offset {offset} to {later} of {place}: it was reset"
            if offset is not None and offset > end:
                return f"the group is at offset {offset} of {place}, beyond the log's end, {end}: it was created again"
    return None
