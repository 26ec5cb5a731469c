"""Two topics as one log, for a join: named together, their partitions under one numbering, their ids as one.

The name of such a log is both names with a comma between them, which no topic's name has, and its id both ids. A
partition of the right topic is numbered `RIGHT_PARTITION_BASE` (1,000,000) more than Kafka numbers it, in every table,
record and message key; `format_partition` says it as Kafka does. So a position, a cut or a loss is the same thing for
one topic and for two, and a topic that was made again makes another log.
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
    """Return the name of the log that a pipeline reads: its topic's, or both topics'."""
    join = pipeline.join
    return f"{pipeline.source.name}{SEPARATOR}{join.right.name}" if isinstance(join, Join) else pipeline.source.name


def find_source(pipeline: Pipeline, partition: int) -> Topic:
    """Left or right topic, by the partition's number."""
    join = pipeline.join
    return join.right if isinstance(join, Join) and partition >= RIGHT_PARTITION_BASE else pipeline.source


def split_topics(log: str) -> tuple[str, ...]:
    """Split the name of a log: one topic, or left and right."""
    return tuple(log.split(SEPARATOR))


def number_partition(topic: int, partition: int) -> int:
    """Partitions of the second topic count from 1,000,000 on; `topic` is 0 or 1."""
    return topic * RIGHT_PARTITION_BASE + partition


def make_topic_partition(log: str, partition: int, offset: int = -1) -> TopicPartition:
    """Return a position as Kafka's client names it."""
    return TopicPartition(
        split_topics(log)[partition // RIGHT_PARTITION_BASE], partition % RIGHT_PARTITION_BASE, offset
    )


def number_topic_partition(log: str, position: TopicPartition) -> int:
    """Turn a position's topic and partition into one number: the right topic's from 1,000,000 on."""
    return number_partition(split_topics(log).index(position.topic), int(position.partition))


def number_message_partition(log: str, message: Message) -> int:
    """Return the number of the partition of a message; an error may come without a topic."""
    names, topic = split_topics(log), message.topic()
    return number_partition(names.index(topic) if topic in names else 0, int(message.partition() or 0))


def get_offset(message: Message) -> int:
    """Take it of a record.

    Raises:
        LogError: The client handed over something that has none.
    """
    offset = message.offset()
    if offset is None:
        msg = f"Topic `{message.topic()}`, partition {message.partition()}: expected a record with an offset, got none."
        raise LogError(msg)
    return offset


def split_cut(cut: Cut) -> tuple[Cut, ...]:
    """Return a cut as one for each topic, with Kafka's own numbers of partitions."""
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


def format_number(partition: int) -> str:
    """Return the number of a partition for a table that has no room for topics: `2`, or `right 2`."""
    return str(partition) if partition < RIGHT_PARTITION_BASE else f"right {partition % RIGHT_PARTITION_BASE}"


def name_offsets(offsets: Mapping[int, int]) -> dict[str, int]:
    """Return an offset of each partition by the number of the partition as `format_number` writes it, for an event."""
    return {format_number(partition): offset for partition, offset in sorted(offsets.items())}


def format_offsets(offsets: Mapping[int, int]) -> str:
    """Return an offset of each partition: `0: 1,204, 1: 1,198`, of a join `0: 1,204, right 0: 88`."""
    return ", ".join(f"{name}: {offset:,}" for name, offset in name_offsets(offsets).items()) or "none"


def format_partition(log: str, partition: int) -> str:
    """Return a partition as people know it: `topic clicks, partition 2`."""
    return f"topic {split_topics(log)[partition // RIGHT_PARTITION_BASE]}, partition {partition % RIGHT_PARTITION_BASE}"
