"""Headers of record batches, read from a real log: transactions leave nothing missing, compaction does."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from cutover.errors import LogError
from cutover.lake.integrity import complete_read
from cutover.log.kafka import LogClient
from cutover.settings import Settings
from tests.integration.streaming import rig
from tests.integration.streaming.log.loss import cut_away
from tests.integration.streaming.rig import Event
from tests.support.log import compacted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def topic(kafka_settings: Settings, topic_name: str) -> str:
    rig.make_topic(kafka_settings, topic_name, partitions=2)
    return topic_name


def send_transactions(settings: Settings, topic: str, count: int) -> None:
    """Send transactions of seven records in each partition; every third one is aborted."""
    options = {"bootstrap.servers": settings.kafka.bootstrap_servers, "transactional.id": topic, "linger.ms": 1}
    producer = Producer(options)
    producer.init_transactions(30)
    for number in range(count):
        producer.begin_transaction()
        for record in range(14):
            producer.produce(topic, b"x" * 900, partition=record % 2)
        producer.flush(30)
        end: Callable[[float], None] = producer.abort_transaction if number % 3 == 2 else producer.commit_transaction
        end(30)


@pytest.mark.quick
def test_control_records_and_aborted_records_account_for_their_offsets(
    kafka_settings: Settings, topic: str, spark: "SparkSession"
) -> None:
    send_transactions(kafka_settings, topic, 9)
    client = LogClient(kafka_settings)
    ends = client.latest(topic)
    whole_ranges = {p: (0, end) for p, end in ends.items()}

    assert ends == {0: 9 * 8, 1: 9 * 8}
    assert len(compacted.read_positions(kafka_settings, topic)) == 2 * 6 * 7
    assert complete_read.find_missing_ranges(spark, kafka_settings, client, topic, (whole_ranges,)) == ()
    inner = ({0: (3, 30), 1: (7, 8)}, {0: (31, 72)})
    assert complete_read.find_missing_ranges(spark, kafka_settings, client, topic, inner) == ()


def test_what_compaction_removed_is_missing_and_nothing_else(
    kafka_settings: Settings, topic: str, spark: "SparkSession"
) -> None:
    compacted.roll_segments(kafka_settings, topic)
    for part in range(4):
        some = [Event(id=10 * part + i, minute=10 * part + i, partition=i % 2) for i in range(10)]
        rig.send(kafka_settings, topic, some)
    deleted = compacted.compact(kafka_settings, topic, least=10)
    compacted.disable_compaction(kafka_settings, topic)
    client = LogClient(kafka_settings)
    deleted |= {(p, o) for p in (0, 1) for o in range(20)} - compacted.read_positions(kafka_settings, topic)

    missing = complete_read.find_missing_ranges(spark, kafka_settings, client, topic, ({0: (0, 20), 1: (0, 20)},))

    assert sum(gap.missing for gap in missing) == len(deleted)
    assert all(any(g.partition == p and g.first_offset <= o < g.next_offset for g in missing) for p, o in deleted)


def test_log_that_begins_behind_the_range_is_named(kafka_settings: Settings, topic: str, spark: "SparkSession") -> None:
    rig.send(kafka_settings, topic, [Event(id=i, minute=i) for i in range(10)])
    cut_away(kafka_settings, topic, {0: 6})
    client = LogClient(kafka_settings)

    with pytest.raises(LogError, match="partition 0: expected offset 2, the log starts at 6") as refused:
        complete_read.find_missing_ranges(spark, kafka_settings, client, topic, ({0: (2, 10)},))

    assert refused.value.runbook == "LogDataLost"
