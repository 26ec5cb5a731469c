"""Two topics under one name: partitions of the right one are numbered apart, and shown as Kafka numbers them."""

import pytest

from cutover.cli.log import select_topic
from cutover.definition.model.joins import RIGHT_PARTITION_BASE
from cutover.errors import DefinitionError
from cutover.log import topic_partitions
from cutover.log.cut import Cut, LogId
from tests.support.rows.joined import ONE, TWO


def test_a_log_is_named_by_its_topics() -> None:
    assert [topic_partitions.name_log(pipeline) for pipeline in (TWO, ONE)] == ["shown,clicked", "shown"]


@pytest.mark.parametrize(
    ("partition", "topic", "kafka_partition"),
    [(0, "shown", 0), (7, "shown", 7), (RIGHT_PARTITION_BASE, "clicked", 0), (RIGHT_PARTITION_BASE + 7, "clicked", 7)],
)
def test_a_partition_is_converted_to_kafka_and_back(partition: int, topic: str, kafka_partition: int) -> None:
    place = topic_partitions.make_topic_partition("shown,clicked", partition, 5)

    assert (place.topic, place.partition, place.offset) == (topic, kafka_partition, 5)
    assert topic_partitions.number_topic_partition("shown,clicked", place) == partition
    assert topic_partitions.find_source(TWO, partition).name == topic
    assert (
        topic_partitions.format_partition("shown,clicked", partition) == f"topic {topic}, partition {kafka_partition}"
    )


def test_a_cut_is_split_by_topic() -> None:
    log = LogId(cluster_id="c", topic="shown,clicked", topic_id="A,B")

    cuts = topic_partitions.split_cut(
        Cut(log=log, offsets={0: 3, RIGHT_PARTITION_BASE: 4, RIGHT_PARTITION_BASE + 1: 5})
    )

    assert [(cut.log.topic, cut.log.topic_id, dict(cut.offsets)) for cut in cuts] == [
        ("shown", "A", {0: 3}),
        ("clicked", "B", {0: 4, 1: 5}),
    ]


def test_a_file_is_produced_to_the_requested_topic() -> None:
    assert [select_topic(TWO, topic).source.name for topic in (None, "shown", "clicked")] == [
        "shown",
        "shown",
        "clicked",
    ]


def test_a_topic_that_the_pipeline_does_not_read_is_rejected() -> None:
    with pytest.raises(DefinitionError, match="--topic: expected clicked or shown"):
        select_topic(TWO, "orders")
