"""A line to the broker that is slow and cut every other second: every question is answered all the same."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cutover.log.kafka import LogClient
from cutover.settings import KafkaSettings, Settings
from tests.faults.catalogue.log.kafka import advertise
from tests.faults.running.proxy import Proxy
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event
from tests.support.servers.broker import Broker

ROUNDS = 4


@pytest.fixture
def bad_line(tmp_path: Path) -> Iterator[tuple[Settings, Proxy]]:
    """Return settings that lead through a proxy to a broker with twenty records in each of two partitions."""
    broker = Broker(tmp_path)
    broker.start()
    proxy = Proxy(broker.ports.broker, delay=0.05, rate=400_000, cut_every=2.0)
    try:
        direct = Settings(home=tmp_path, kafka=KafkaSettings(bootstrap_servers=broker.bootstrap))
        rig.make_topic(direct, "clicks", partitions=2)
        rig.send(direct, "clicks", [Event(id=i, minute=i, partition=i % 2) for i in range(40)])
        advertise(broker, proxy.port)
        yield direct.model_copy(update={"kafka": KafkaSettings(bootstrap_servers=f"127.0.0.1:{proxy.port}")}), proxy
    finally:
        proxy.close()
        broker.stop()


def test_every_question_is_answered_over_a_line_that_is_cut(bad_line: tuple[Settings, Proxy]) -> None:
    settings, proxy = bad_line
    client = LogClient(settings)
    rounds = 0
    while rounds < ROUNDS or proxy.cuts < 2 * ROUNDS:
        rounds += 1
        assert client.high_watermarks("clicks") == client.latest("clicks") == {0: 20, 1: 20}
        assert client.earliest("clicks") == {0: 0, 1: 0}
        assert client.newest_times("clicks") == {p: rig.NOON + (38 + p) * rig.MINUTE for p in (0, 1)}
        assert len(list(client.read_ranges("clicks", {0: (0, 20), 1: (0, 20)}))) == 40
        assert client.config("clicks")["retention.ms"] == "-1"
