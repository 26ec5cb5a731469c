"""A log that was put back from a copy and written again: it is known by what it holds, not by its id and offsets."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cutover.errors import LogError
from cutover.settings import Kafka, Settings
from streaming import driver
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event
from tests.support.broker import Broker
from tests.support.rewritten import LogCopy

KEPT = [Event(id=i, minute=i, partition=i % 2) for i in range(30)]
GONE = [Event(id=100 + i, minute=30 + i, partition=i % 2) for i in range(30)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that these tests may stop."""
    made = Broker(tmp_path_factory.mktemp("broker"))
    made.start()
    yield made
    made.stop()


@pytest.fixture
def own(settings: Settings, broker: Broker, spark: SparkSession) -> Settings:  # noqa: ARG001 -- the session that drivers share
    """Return settings with a home of this test's own and the broker that may be stopped."""
    return rig.fast(
        settings.model_copy(update={"kafka": Kafka(bootstrap_servers=broker.bootstrap, timeout_seconds=60)})
    )


def test_log_written_again_under_its_id_is_refused_before_anything_is_written(
    own: Settings, broker: Broker, topic_name: str, tmp_path: Path
) -> None:
    pipeline = rig.pipeline(topic_name)
    rig.make_topic(own, topic_name, partitions=2)
    rig.send(own, topic_name, KEPT)
    driver.run(own, pipeline, until="drain")
    copy = LogCopy(broker, topic_name, tmp_path / "copy")
    rig.send(own, topic_name, GONE)
    driver.run(own, pipeline, until="drain")
    before = rig.epoch_log(own, pipeline).version

    copy.put_back()
    rig.send(own, topic_name, [Event(id=1000 + i, minute=30 + i, partition=i % 2) for i in range(len(GONE))])
    with pytest.raises(LogError) as refused:
        driver.run(own, pipeline, until="drain")

    assert refused.value.runbook == "LogDataLost"
    assert f"Topic {topic_name}, partition 0: expected at offset " in str(refused.value)
    assert "offsets 15 to 29 are gone or hold others" in str(refused.value)
    assert before == rig.epoch_log(own, pipeline).version
