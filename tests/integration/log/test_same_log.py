"""A log compared with the marks of epochs: agreement, the first difference, and a log cut by retention."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from cutover.errors import LogError
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.integrity import same_log
from cutover.lake.integrity.same_log import MarkReader
from cutover.log.cut import Mark
from cutover.log.kafka import LogClient
from cutover.settings import Settings
from tests.integration.streaming.log.loss import cut_away

EPOCHS, STEP = 8, 5


@pytest.fixture
def client(kafka_settings: Settings, topic_name: str) -> LogClient:
    """Return a client of a log of two partitions with forty records each."""
    log_client = LogClient(kafka_settings)
    log_client.create_topic(topic_name, partitions=2, config={"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": log_client.bootstrap})
    for at in range(EPOCHS * STEP):
        for partition in (0, 1):
            producer.produce(topic_name, b"%d" % at, partition=partition, timestamp=1_000_000 + at)
    assert producer.flush(30) == 0
    return log_client


def read(client: LogClient, topic: str, *, wrong_from: int | None = None) -> list[EpochRecord]:
    """Return the records of epochs of five offsets; those of partition 1 say something else from an offset on."""
    reader, epoch_records = MarkReader(client, topic, "read_committed"), list[EpochRecord]()
    for number in range(EPOCHS):
        start, end = number * STEP, (number + 1) * STEP
        marks = reader.read_last({0: (start, end), 1: (start, end)})
        epoch_records.append(epoch(topic, number, {**marks, 1: tuple(_other(mark, wrong_from) for mark in marks[1])}))
    reader.close()
    return epoch_records


def _other(mark: Mark, wrong_from: int | None) -> Mark:
    return mark._replace(digest="0" * 16) if wrong_from is not None and mark.offset >= wrong_from else mark


def epoch(topic: str, number: int, marks: Mapping[int, tuple[Mark, ...]]) -> EpochRecord:
    """Return the record of an epoch."""
    return EpochRecord(
        epoch=number,
        run_id="r",
        topic=topic,
        topic_id="t",
        cluster_id="c",
        start=dict.fromkeys((0, 1), number * STEP),
        end=dict.fromkeys((0, 1), (number + 1) * STEP),
        max_event={},
        watermark_before=None,
        watermark_after=None,
        marks=marks,
        leaders={0: 0, 1: 0},
    )


def test_log_that_was_read_is_known_again(client: LogClient, topic_name: str) -> None:
    records = read(client, topic_name)

    assert same_log.find_rewritten_partitions(client, records[-1], lambda: records) == ()
    assert same_log.is_unchanged(client, records[3])


@pytest.mark.quick
@pytest.mark.parametrize("wrong_from", [0, 7, 24, 39])
def test_first_mark_that_differs_and_the_last_that_agrees_are_found(
    client: LogClient, topic_name: str, wrong_from: int
) -> None:
    records = read(client, topic_name, wrong_from=wrong_from)

    (change,) = same_log.find_rewritten_partitions(client, records[-1], lambda: records)

    # The first offset of each epoch has no mark: what lies between the last mark that agrees and the first that does
    # not counts as changed, since this broker has had one leader only.
    marked = wrong_from + 1 if wrong_from % STEP == 0 else wrong_from
    assert (change.partition, change.expected.offset, change.epoch) == (1, marked, marked // STEP)
    assert (change.first, change.end) == (0 if wrong_from == 0 else wrong_from, 40)
    with pytest.raises(LogError, match=f"Topic {topic_name}, partition 1: expected at offset {marked} ") as refused:
        same_log.check_log_unchanged("clicks", client, records[-1], lambda: records)
    assert refused.value.runbook == "LogDataLost"


def test_offsets_that_the_log_does_not_reach_are_changed(client: LogClient, topic_name: str) -> None:
    records = read(client, topic_name)
    ahead = tuple(mark._replace(offset=mark.offset + STEP) for mark in records[-1].marks[0])
    newest = replace(epoch(topic_name, EPOCHS, {0: ahead, 1: records[-1].marks[1]}), end={0: 45, 1: 40})

    (change,) = same_log.find_rewritten_partitions(client, newest, lambda: [*records, newest])

    assert (change.partition, change.first, change.end, change.actual) == (0, 40, 45, None)


@pytest.mark.quick
def test_what_retention_has_taken_is_no_change(client: LogClient, kafka_settings: Settings, topic_name: str) -> None:
    records = read(client, topic_name, wrong_from=36)
    cut_away(kafka_settings, topic_name, {1: 40})

    assert same_log.find_rewritten_partitions(client, records[-1], lambda: records) == ()


def test_marks_that_retention_has_left_are_compared(
    client: LogClient, kafka_settings: Settings, topic_name: str
) -> None:
    records = read(client, topic_name, wrong_from=20)
    cut_away(kafka_settings, topic_name, {1: 38})

    (change,) = same_log.find_rewritten_partitions(client, records[-1], lambda: records)

    assert (change.first, change.expected.offset) == (38, 38)
