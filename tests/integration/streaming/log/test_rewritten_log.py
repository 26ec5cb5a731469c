"""A log restored from a copy and written again: its content identifies it, not its id and offsets."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cutover.batch import recompute
from cutover.definition.model.joins import RIGHT_PARTITION_BASE
from cutover.errors import LogError
from cutover.lake.control import versions
from cutover.log.kafka import RawRecord
from cutover.log.topic_partitions import name_log, split_topics
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.run import run_reconciliation
from cutover.settings import KafkaSettings, Settings
from cutover.streaming import driver
from tests.integration.streaming import rig
from tests.integration.streaming.conftest import Start
from tests.integration.streaming.rig import Event
from tests.integration.streaming.test_joins import CLICK, FAR, IN_TIME, LEFT, NEXT, log_of_sent
from tests.support.drivers.background import Background
from tests.support.log.real_log import Writer
from tests.support.log.rewritten import LogCopy
from tests.support.rows.joined import TWO
from tests.support.servers.broker import Broker
from tests.support.suite.until import until

KEPT = [Event(id=i, minute=i, partition=i % 2) for i in range(30)]
GONE = [Event(id=100 + i, minute=30 + i, partition=i % 2) for i in range(30)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that these tests may stop."""
    new_broker = Broker(tmp_path_factory.mktemp("broker"))
    new_broker.start()
    yield new_broker
    new_broker.stop()


@pytest.fixture
def broker_settings(settings: Settings, broker: Broker, spark: SparkSession) -> Settings:  # noqa: ARG001 -- the session that drivers share
    """Return settings with a new home and the broker that may be stopped."""
    return rig.fast(
        settings.model_copy(update={"kafka": KafkaSettings(bootstrap_servers=broker.bootstrap, timeout_seconds=60)})
    )


def test_log_written_again_under_its_id_is_refused_before_anything_is_written(
    broker_settings: Settings, broker: Broker, topic_name: str, tmp_path: Path
) -> None:
    pipeline = rig.pipeline(topic_name)
    rig.make_topic(broker_settings, topic_name, partitions=2)
    rig.send(broker_settings, topic_name, KEPT)
    lake = PipelineLake(broker_settings, pipeline)
    driver.run_driver(lake, until="drain")
    copy = LogCopy(broker, topic_name, tmp_path / "copy")
    rig.send(broker_settings, topic_name, GONE)
    driver.run_driver(lake, until="drain")
    version = rig.epoch_log(lake).version

    copy.restore()
    rig.send(
        broker_settings, topic_name, [Event(id=1000 + i, minute=30 + i, partition=i % 2) for i in range(len(GONE))]
    )
    with pytest.raises(LogError) as refused:
        driver.run_driver(lake, until="drain")

    assert refused.value.runbook == "LogDataLost"
    assert f"Topic {topic_name}, partition 0: expected at offset " in str(refused.value)
    assert "offsets 15 to 29 are missing or hold other records" in str(refused.value)
    assert version == rig.epoch_log(lake).version


def read_up_to(lake: PipelineLake, log: list[RawRecord], background: Background | None) -> None:
    """Let a stream read a whole log; drain it where no driver runs."""

    def done() -> bool:
        epochs = rig.records(lake) if versions.find_current_version(lake) is not None else []
        return bool(epochs) and sum(epochs[-1].end.values()) == len(log)

    if background is None:
        driver.run_driver(lake, until="drain")
    until(done, within=90)


OTHERS = tuple((CLICK + p, 9.5, "z", {"n": 7}) for p in (0, 1))
"""In the place of what the right topic held of `FAR`."""


def select_side(log: list[RawRecord], side: int) -> list[RawRecord]:
    """Return the records of one topic, by Kafka's own numbers."""
    return [
        replace(r, partition=r.partition % RIGHT_PARTITION_BASE)
        for r in log
        if r.partition // RIGHT_PARTITION_BASE == side
    ]


def append(settings: Settings, topics: Sequence[str], raw_records: list[RawRecord], log: list[RawRecord]) -> None:
    """Write what a log holds behind its beginning, to each topic its own."""
    for side, topic in enumerate(topics):
        present_records, all_records = select_side(raw_records, side), select_side(log, side)
        if topic:
            Writer(settings).write(
                topic, [r for r in all_records if r not in present_records], preceding=present_records
            )


@pytest.mark.parametrize("driven", ["started anew", "running"])
def test_second_topic_of_a_join_written_again_stops_the_stream_and_nothing_is_compared(
    broker_settings: Settings, broker: Broker, topic_name: str, tmp_path: Path, start: Start, driven: str
) -> None:
    pipeline = rig.over_topic(TWO, topic_name)
    left_topic, right = split_topics(name_log(pipeline))
    kept_records = log_of_sent((*IN_TIME, *NEXT))
    Writer(broker_settings).fill(pipeline, kept_records)
    lake = PipelineLake(broker_settings, pipeline)
    background = start(lake) if driven == "running" else None
    read_up_to(lake, kept_records, background)
    copy = LogCopy(broker, right, tmp_path / "copy")
    raw_records = log_of_sent((*IN_TIME, *NEXT, *FAR))
    append(broker_settings, (left_topic, right), kept_records, raw_records)
    read_up_to(lake, raw_records, background)
    recompute.recompute_windows(lake)
    sound, version_before = run_reconciliation(lake), rig.epoch_log(lake).version

    copy.restore()
    append(broker_settings, ("", right), kept_records, log_of_sent((*IN_TIME, *NEXT, *FAR[: LEFT + 2], *OTHERS)))
    if background is None:
        with pytest.raises(LogError) as refused:
            driver.run_driver(lake, until="drain")
        failure: BaseException | None = refused.value
    else:
        background.join()
        failure = background.failure
    report = run_reconciliation(lake)

    assert sound.finding.verdict is Verdict.CONSISTENT
    assert f"Topic {right}, partition 0: expected at offset " in str(failure)
    assert f"Topic {left_topic}, " not in str(failure)
    assert version_before == rig.epoch_log(lake).version
    assert (report.finding.verdict, report.finding.exit_code, report.finding.runbook) == (
        Verdict.NOT_COMPARABLE,
        2,
        "LogDataLost",
    )
    assert f"Topic {right}, partition 0" in report.finding.sentence
