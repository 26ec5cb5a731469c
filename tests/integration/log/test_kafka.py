"""A client's reads of a real log: ends, single records and times, with transactions in it."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from cutover.errors import LogError
from cutover.log.kafka import LogClient
from cutover.settings import Settings

SECOND = 1_000_000


@pytest.fixture
def client(kafka_settings: Settings, topic_name: str) -> LogClient:
    client = LogClient(kafka_settings)
    client.create_topic(topic_name, partitions=2, config={"retention.ms": "-1"})
    return client


@pytest.fixture
def producer(client: LogClient, topic_name: str) -> Iterator[Producer]:
    """Three records committed at offsets 0 to 2, the marker at 3, three of an open transaction at 4 to 6."""
    producer = Producer({"bootstrap.servers": client.bootstrap, "transactional.id": topic_name})
    producer.init_transactions()
    producer.begin_transaction()
    send(producer, topic_name, b"committed")
    producer.commit_transaction()
    producer.begin_transaction()
    send(producer, topic_name, b"open")
    producer.flush()
    yield producer
    producer.abort_transaction()


def send(producer: Producer, topic: str, value: bytes) -> None:
    for second in range(3):
        producer.produce(topic, value, partition=0, timestamp=(1 + second) * 1000)


@pytest.mark.quick
@pytest.mark.usefixtures("producer")
def test_an_open_transaction_is_an_end_for_those_who_read_what_is_committed(client: LogClient, topic_name: str) -> None:
    assert client.latest(topic_name) == {0: 4, 1: 0}
    assert client.latest(topic_name, "read_uncommitted") == client.high_watermarks(topic_name) == {0: 7, 1: 0}
    assert [record.offset for record in client.read_range(topic_name, 0, 0, 7)] == [0, 1, 2]


def test_positions_that_hold_no_record_are_left_out(client: LogClient, topic_name: str, producer: Producer) -> None:
    producer.abort_transaction()
    producer.begin_transaction()

    assert [record.offset for record in client.read(topic_name, {0: [7, 5, 3, 2, 0, 99], 1: [0]})] == [0, 2]


@pytest.mark.usefixtures("producer")
@pytest.mark.parametrize(
    ("isolation", "offsets"), [("read_committed", [0, 1, 2]), ("read_uncommitted", [0, 1, 2, 4, 5, 6])]
)
def test_ranges_hold_what_a_reader_gets(client: LogClient, topic_name: str, isolation: str, offsets: list[int]) -> None:
    ranges = {0: (0, 7), 1: (0, 0)}

    assert [r.offset for r in client.read_ranges(topic_name, ranges, isolation)] == offsets
    assert [at for _, at, _ in client.positions(topic_name, ranges, isolation)] == offsets


def test_ranges_begin_and_end_where_they_should(client: LogClient, topic_name: str) -> None:
    producer = Producer({"bootstrap.servers": client.bootstrap})
    for second in range(10):
        producer.produce(topic_name, b"x", partition=second % 2, timestamp=(1 + second) * 1000)
    producer.flush()

    positions = sorted(client.positions(topic_name, {0: (1, 3), 1: (4, 99)}))

    assert positions == [(0, 1, 3 * SECOND), (0, 2, 5 * SECOND), (1, 4, 10 * SECOND)]


def test_positions_up_to_the_end_of_a_log_are_read(client: LogClient, topic_name: str) -> None:
    producer = Producer({"bootstrap.servers": client.bootstrap})
    for _ in range(7):
        send(producer, topic_name, b"plain")
    assert producer.flush(30) == 0

    assert [record.offset for record in client.read(topic_name, {0: range(20)})] == list(range(20))


@pytest.mark.usefixtures("producer")
@pytest.mark.parametrize(
    ("micros", "offset"),
    [
        pytest.param(-3_600 * SECOND, 0, id="before 1970"),
        pytest.param(-1_000, 0, id="what a broker takes for a command"),
        pytest.param(2 * SECOND, 1, id="the record's own time"),
        pytest.param(2 * SECOND + 1, 1, id="inside its millisecond"),
        pytest.param(90 * SECOND, 3, id="after all records: their marker"),
    ],
)
def test_the_first_offset_from_a_time_on(client: LogClient, topic_name: str, micros: int, offset: int) -> None:
    assert client.offsets_for_time(topic_name, micros) == {0: offset, 1: None}


def test_a_topic_that_has_no_leader_yet_is_asked_again(kafka_settings: Settings, topic_name: str) -> None:
    maker = LogClient(kafka_settings)
    for number in range(10):
        maker.create_topic(f"{topic_name}-{number}", partitions=3, config={})
        # A new client knows no leader yet and requests it at once.
        assert LogClient(kafka_settings).earliest(f"{topic_name}-{number}") == {0: 0, 1: 0, 2: 0}


def test_a_topic_is_known_once_it_is_made_and_unknown_once_it_is_deleted(
    kafka_settings: Settings, topic_name: str
) -> None:
    maker = LogClient(kafka_settings)
    for number in range(20):
        maker.create_topic(f"{topic_name}-{number}", partitions=3, config={})
        assert f"{topic_name}-{number}" in LogClient(kafka_settings).topics()
        maker.delete_topic(f"{topic_name}-{number}")
        assert f"{topic_name}-{number}" not in LogClient(kafka_settings).topics()


def test_absent_topic_of_a_join_is_named_alone(client: LogClient, topic_name: str) -> None:
    log = f"{topic_name},nosuch"

    for ask in (client.topic_id, client.partitions, client.latest, client.describe):
        with pytest.raises(LogError) as refusal:
            ask(log)
        assert str(refusal.value).startswith("Topic `nosuch`: expected a topic of this cluster")


def test_both_absent_topics_of_a_join_are_named(client: LogClient) -> None:
    with pytest.raises(LogError, match=r"^Topics `nosuch` and `none`: expected"):
        client.topic_id("nosuch,none")


def test_broker_without_tls_is_told_from_one_that_is_absent(kafka_settings: Settings) -> None:
    kafka = kafka_settings.kafka.model_copy(update={"protocol": "SSL"})

    with pytest.raises(LogError, match="the port speaks Kafka without TLS: `PLAINTEXT`"):
        LogClient(kafka_settings.model_copy(update={"kafka": kafka})).topics()
