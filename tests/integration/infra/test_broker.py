from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from cutover.infra.broker import server

EIGHT_MB = 8 * 1024 * 1024


def test_broker_takes_and_returns_a_record_of_8_mb(kafka_bootstrap: str, topic_name: str) -> None:
    client: dict[str, str | int | float | bool] = {"bootstrap.servers": kafka_bootstrap}
    admin = AdminClient(client)
    admin.create_topics([NewTopic(topic_name, 1, 1)])[topic_name].result(30)
    producer = Producer({**client, "message.max.bytes": 9_437_184, "enable.idempotence": True})
    producer.produce(topic_name, b"x" * EIGHT_MB)

    assert producer.flush(60) == 0

    reader = Consumer({**client, "group.id": topic_name, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    reader.subscribe([topic_name])
    message = reader.poll(60)
    reader.close()
    assert message is not None
    assert message.error() is None
    assert len(message.value() or b"") == EIGHT_MB


def test_an_address_where_nobody_listens_is_not_reachable() -> None:
    assert server.reachable("127.0.0.1:1", timeout=2) is None
