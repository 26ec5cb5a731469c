"""Marks of the last records before an offset: what a reader gets, and how a log is compared with them."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pytest
from confluent_kafka import Producer

from cutover.lake.integrity import same_log
from cutover.lake.integrity.same_log import MarkReader
from cutover.log.cut import Mark, compute_record_digest
from cutover.log.kafka import LogClient
from cutover.settings import Settings
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event
from tests.support.log import compacted
from tests.support.suite.until import until


class LogRead(NamedTuple):
    """Part of a log that a reader has read."""

    topic: str
    isolation: str
    marks: Mapping[int, tuple[Mark, ...]]


@pytest.fixture
def client(kafka_settings: Settings, topic_name: str) -> LogClient:
    """Return a client of a log with a topic of two partitions."""
    log_client = LogClient(kafka_settings)
    log_client.create_topic(topic_name, partitions=2, config={"retention.ms": "-1"})
    return log_client


@pytest.fixture
def reader(client: LogClient, topic_name: str) -> Iterator[MarkReader]:
    """Return a reader of that topic."""
    mark_reader = MarkReader(client, topic_name, "read_committed")
    yield mark_reader
    mark_reader.close()


def produce(client: LogClient, topic: str, values: Mapping[int, list[bytes | None]], **options: str) -> Producer:
    producer = Producer({"bootstrap.servers": client.bootstrap, **options})
    if options:
        producer.init_transactions()
        producer.begin_transaction()
    for partition, records in values.items():
        for at, value in enumerate(records):
            producer.produce(topic, value, key=b"k", partition=partition, timestamp=1_000_000 + at)
    producer.flush()
    return producer


def offsets(marks: Mapping[int, tuple[Mark, ...]]) -> dict[int, list[int]]:
    return {p: [mark.offset for mark in partition_marks] for p, partition_marks in marks.items()}


def test_null_and_empty_and_the_border_of_key_and_value_are_told_apart() -> None:
    pairs = [(None, None), (None, b""), (b"", None), (b"", b""), (b"ab", b"c"), (b"a", b"bc"), (b"-", None)]

    assert len({compute_record_digest(*pair) for pair in pairs}) == len(pairs)


def test_the_last_records_before_an_offset_are_marked_again_and_again(
    client: LogClient, reader: MarkReader, topic_name: str
) -> None:
    produce(client, topic_name, {0: [b"%d" % i for i in range(50)], 1: [None, b"", b"x"]})

    assert offsets(reader.read_last({0: (0, 50), 1: (0, 3)})) == {0: [46, 47, 48, 49], 1: [0, 1, 2]}
    assert offsets(reader.read_last({0: (0, 30), 1: (2, 3)})) == {0: [26, 27, 28, 29], 1: [2]}
    assert offsets(reader.read_last({0: (29, 29), 1: (3, 3)})) == {}
    assert reader.read_last({0: (0, 10)})[0][-1] == Mark(9, 1_000_009, compute_record_digest(b"k", b"9"))
    assert reader.read_last({1: (0, 3)})[1][:2] == (
        Mark(0, 1_000_000, compute_record_digest(b"k", None)),
        Mark(1, 1_000_001, compute_record_digest(b"k", b"")),
    )


def test_records_behind_an_aborted_transaction_are_found(
    client: LogClient, reader: MarkReader, topic_name: str
) -> None:
    produce(client, topic_name, {0: [b"%d" % i for i in range(10)]})
    produce(client, topic_name, {0: [b"gone"] * 100}, **{"transactional.id": topic_name}).abort_transaction()
    end = 10 + 100 + 1  # the marker of the transaction
    until(lambda: client.latest(topic_name)[0] == end)

    assert offsets(reader.read_last({0: (0, end)})) == {0: [6, 7, 8, 9]}
    assert reader.read_last({0: (10, end)}) == {}


def test_what_lies_beyond_the_log_yields_nothing(client: LogClient, reader: MarkReader, topic_name: str) -> None:
    produce(client, topic_name, {0: [b"a", b"b"]})

    assert reader.read_all({0: (7, 9), 1: (0, 5)}) == {0: (), 1: ()}
    assert offsets(reader.read_all({0: (0, 9)})) == {0: [0, 1]}


def test_ranges_that_compaction_emptied_have_no_marks_however_often_they_are_read(
    kafka_settings: Settings, client: LogClient, reader: MarkReader, topic_name: str
) -> None:
    compacted.roll_segments(kafka_settings, topic_name)
    for part in range(8):
        events = [Event(id=i, minute=3 * part + i / 10, partition=i % 2) for i in range(20)]
        rig.send(kafka_settings, topic_name, events)
    marks_before = reader.read_last({0: (0, 44), 1: (0, 33)})
    compacted.compact(kafka_settings, topic_name, least=140)
    empty = {0: (40, 50), 1: (30, 35)}

    assert [reader.read_last(empty) for _ in range(30)] == [{}] * 30
    assert offsets(reader.read_last({0: (0, 80)})) == {0: [76, 77, 78, 79]}
    # Removed is not replaced: the log is not another one. What it has lost is counted.
    assert same_log.is_unchanged(client, LogRead(topic=topic_name, isolation="read_committed", marks=marks_before))
