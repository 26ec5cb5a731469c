"""Both topics of a join as one log, with a common name, id and numbering of partitions.

The name of such a log is both topic names separated by a comma, which topic names cannot contain; its id is both ids. A
partition of the right topic has its number in Kafka plus `RIGHT_PARTITION_BASE` (1,000,000), in every table, record and
message key; `format_partition` shows the number in Kafka. So positions, cuts and losses have the same form for one
topic and for two, and a log with a recreated topic is another log.
"""

from collections.abc import Mapping

from confluent_kafka import Message, TopicPartition

from cutover.definition.model.joins import RIGHT_PARTITION_BASE, Join
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.topic import Topic
from cutover.errors import LogError
from cutover.log.cut import Cut, LogId

SEPARATOR = ","


def name_log(pipeline: Pipeline) -> str:
    """Return the name of the log that a pipeline reads: its topic, or both topics of its join."""
    join = pipeline.join
    return f"{pipeline.source.name}{SEPARATOR}{join.right.name}" if isinstance(join, Join) else pipeline.source.name


def find_source(pipeline: Pipeline, partition: int) -> Topic:
    """Find the left or right topic by the number of a partition."""
    join = pipeline.join
    return join.right if isinstance(join, Join) and partition >= RIGHT_PARTITION_BASE else pipeline.source


def split_topics(log: str) -> tuple[str, ...]:
    """Split the name of a log: one topic, or left and right."""
    return tuple(log.split(SEPARATOR))


def number_partition(topic: int, partition: int) -> int:
    """Return the number of a partition in the log; `topic` is 0 (left) or 1 (right, from 1,000,000)."""
    return topic * RIGHT_PARTITION_BASE + partition


def make_topic_partition(log: str, partition: int, offset: int = -1) -> TopicPartition:
    """Convert a position to a `TopicPartition` of Kafka's client."""
    return TopicPartition(
        split_topics(log)[partition // RIGHT_PARTITION_BASE], partition % RIGHT_PARTITION_BASE, offset
    )


def number_topic_partition(log: str, position: TopicPartition) -> int:
    """Return the number of a partition of Kafka in the log: the right topic's start at 1,000,000."""
    return number_partition(split_topics(log).index(position.topic), int(position.partition))


def number_message_partition(log: str, message: Message) -> int:
    """Return the number of a message's partition; an error event may have no topic."""
    names, topic = split_topics(log), message.topic()
    return number_partition(names.index(topic) if topic in names else 0, int(message.partition() or 0))


def get_offset(message: Message) -> int:
    """Return the offset of a record.

    Raises:
        LogError: The message has no offset.
    """
    offset = message.offset()
    if offset is None:
        msg = f"Topic `{message.topic()}`, partition {message.partition()}: expected a record with an offset, got none."
        raise LogError(msg)
    return offset


def split_cut(cut: Cut) -> tuple[Cut, ...]:
    """Split a cut into one per topic, with the partition numbers of Kafka."""
    log = cut.log
    names, ids = split_topics(log.topic), split_topics(log.topic_id)
    return tuple(
        Cut(
            log=LogId(cluster_id=log.cluster_id, topic=name, topic_id=topic_id),
            offsets={
                p % RIGHT_PARTITION_BASE: offset
                for p, offset in cut.offsets.items()
                if p // RIGHT_PARTITION_BASE == turn
            },
        )
        for turn, (name, topic_id) in enumerate(zip(names, ids, strict=True))
    )


def format_partition_number(partition: int) -> str:
    """Format the number of a partition for a table without topic names: `2`, or `right 2`."""
    return str(partition) if partition < RIGHT_PARTITION_BASE else f"right {partition % RIGHT_PARTITION_BASE}"


def name_offsets(offsets: Mapping[int, int]) -> dict[str, int]:
    """Key the offsets of partitions by `format_partition_number`, for events."""
    return {format_partition_number(partition): offset for partition, offset in sorted(offsets.items())}


def format_offsets(offsets: Mapping[int, int]) -> str:
    """Format the offsets of partitions: `0: 1,204, 1: 1,198`, or for a join `0: 1,204, right 0: 88`."""
    return ", ".join(f"{name}: {offset:,}" for name, offset in name_offsets(offsets).items()) or "none"


def format_partition(log: str, partition: int) -> str:
    """Format a partition for messages: `topic clicks, partition 2`."""
    return f"topic {split_topics(log)[partition // RIGHT_PARTITION_BASE]}, partition {partition % RIGHT_PARTITION_BASE}"
