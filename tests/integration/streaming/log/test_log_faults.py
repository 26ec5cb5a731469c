"""A log that is no longer the one the table was built from: the stream stops before it writes."""

from collections.abc import Callable

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from cutover.clock import Point, Probe
from cutover.errors import CutoverError, LogError
from cutover.lake.control import versions
from cutover.log.kafka import LogClient
from cutover.log.options import bootstrap_servers
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from cutover.streaming import driver
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event
from tests.support.suite.until import until

EVENTS = [Event(id=i, minute=i, partition=i % 2) for i in range(40)]


def recreate(settings: Settings, topic: str, events: int) -> None:
    """Delete the topic and make it again, with `events` records of a new story."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers(settings)})
    admin.delete_topics([topic])[topic].result()
    until(lambda: topic not in LogClient(settings).topics())
    rig.make_topic(settings, topic, partitions=2)
    rig.send(settings, topic, [Event(id=10_000 + i, minute=i, partition=i % 2) for i in range(events)])


def cut_away(settings: Settings, topic: str, first_kept: int) -> None:
    """Let the log forget everything before an offset, in each partition."""
    offsets = [TopicPartition(topic, partition, first_kept) for partition in (0, 1)]
    admin = AdminClient({"bootstrap.servers": bootstrap_servers(settings)})
    for future in admin.delete_records(offsets).values():
        future.result()


def at_epoch(number: int, fault: Callable[[], None]) -> Probe:
    """Return a probe that makes a fault happen once, when an epoch was planned."""
    happened: list[int] = []

    def probe(point: Point, epoch: int) -> None:
        if (point, epoch) == ("epoch.planned", number) and not happened:
            happened.append(epoch)
            fault()

    return probe


@pytest.mark.parametrize("events", [10, 80], ids=["shorter", "longer"])
def test_topic_recreated_while_stopped_is_refused(quick: Settings, topic: str, events: int) -> None:
    pipeline = rig.pipeline(topic)
    rig.send(quick, topic, EVENTS)
    lake = PipelineLake(quick, pipeline)
    driver.run_driver(lake, until="drain")
    version = rig.epoch_log(lake).version
    recreate(quick, topic, events)

    with pytest.raises(LogError, match="the epoch log was built from") as refused:
        driver.run_driver(lake, until="drain")

    assert refused.value.runbook == "TopicIdentityChanged"
    assert version == rig.epoch_log(lake).version


@pytest.mark.quick("longer")
@pytest.mark.parametrize("events", [10, 80], ids=["shorter", "longer"])
def test_topic_recreated_while_running_is_refused_before_the_commit(quick: Settings, topic: str, events: int) -> None:
    pipeline = rig.pipeline(topic, cap=20)
    rig.send(quick, topic, EVENTS)

    lake = PipelineLake(quick, pipeline)
    with pytest.raises(LogError) as refused:
        driver.run_driver(lake, probe=at_epoch(1, lambda: recreate(quick, topic, events)))

    assert refused.value.runbook == "TopicIdentityChanged"
    assert [e.epoch for e in rig.records(lake)] == [0]


def test_offsets_gone_while_stopped_are_named(quick: Settings, topic: str) -> None:
    pipeline = rig.pipeline(topic)
    rig.send(quick, topic, EVENTS)
    lake = PipelineLake(quick, pipeline)
    driver.run_driver(lake, until="drain")
    rig.send(quick, topic, EVENTS)
    cut_away(quick, topic, first_kept=30)

    with pytest.raises(LogError) as refused:
        driver.run_driver(lake, until="drain")

    assert f"Topic {topic}, partition 0: expected offset 20, log starts at 30: 10 offsets are gone" in str(
        refused.value
    )
    assert refused.value.runbook == "LogDataLost"


def test_offsets_gone_while_running_stop_the_stream_before_a_commit_that_skips(quick: Settings, topic: str) -> None:
    pipeline = rig.pipeline(topic, cap=10)
    rig.send(quick, topic, EVENTS)

    def lose() -> None:
        # The consumer holds the first forty already: what is lost is what it has not fetched.
        rig.send(quick, topic, [Event(id=100 + i, minute=50, partition=i % 2) for i in range(400)])
        cut_away(quick, topic, first_kept=150)

    lake = PipelineLake(quick, pipeline)
    with pytest.raises(LogError, match="offsets are gone") as refused:
        driver.run_driver(lake, probe=at_epoch(1, lose))

    assert refused.value.runbook == "LogDataLost"
    assert rig.gaps(rig.records(lake)) == []
    assert max(rig.records(lake)[-1].end.values()) <= 20


def test_log_that_lost_its_beginning_before_the_first_epoch_says_so(quick: Settings, topic: str) -> None:
    pipeline = rig.pipeline(topic)
    rig.send(quick, topic, EVENTS)
    cut_away(quick, topic, first_kept=5)

    lake = PipelineLake(quick, pipeline)
    driver.run_driver(lake, until="drain")

    assert dict(rig.records(lake)[0].start) == {0: 5, 1: 5}


@pytest.mark.parametrize("expected_text", ["unknown", "compacted"])
def test_topic_that_cannot_be_read_again_is_refused_before_anything_is_made(
    quick: Settings, topic_name: str, expected_text: str
) -> None:
    if expected_text == "compacted":
        LogClient(quick).create_topic(topic_name, partitions=1, config={"cleanup.policy": "compact"})
    pipeline = rig.pipeline(topic_name)

    lake = PipelineLake(quick, pipeline)
    with pytest.raises(CutoverError):
        driver.run_driver(lake, until="drain")

    assert versions.find_current_version(lake) is None
