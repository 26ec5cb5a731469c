"""A definition that reads uncommitted records counts those of an open transaction, and starts again behind them."""

from dataclasses import replace

from confluent_kafka import Producer

from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from cutover.streaming import driver
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event

EVENTS = [Event(id=i, minute=i) for i in range(5)]


def test_records_of_an_open_transaction_are_read_and_not_lost(quick: Settings, topic: str) -> None:
    committed = rig.pipeline(topic)
    pipeline = replace(committed, source=replace(committed.source, isolation="read_uncommitted"))
    producer = Producer({"bootstrap.servers": quick.kafka.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    for event in EVENTS:
        producer.produce(topic, event.value, partition=0, timestamp=event.micros // 1000)
    producer.flush()

    lake = PipelineLake(quick, pipeline)
    driver.run_driver(lake, until="drain")
    driver.run_driver(lake, until="drain")

    assert rig.records(lake)[-1].end == {0: 5, 1: 0}
    assert rig.count_by_cell(lake) == rig.expect_cells(EVENTS)
    producer.abort_transaction()
