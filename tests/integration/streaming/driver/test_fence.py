"""Two drivers on one table: the one that missed the other's commit ends, and has written nothing since."""

import threading
from pathlib import Path
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession

from cutover.clock import Point
from cutover.errors import LakeError
from cutover.lake.integrity import same_log
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from cutover.streaming import driver
from cutover.streaming.process import heartbeat
from cutover.streaming.process.heartbeat import only_driver
from tests.integration.streaming import rig
from tests.integration.streaming.conftest import Start
from tests.integration.streaming.rig import Event
from tests.support.drivers.background import WITHIN
from tests.support.drivers.fed import Fed, HandClock

EVENTS = [Event(id=i, minute=i, partition=i % 2) for i in range(20)]
MORE = [Event(id=100 + i, minute=30 + i, partition=i % 2) for i in range(10)]


@pytest.fixture
def two_homes(quick: Settings, tmp_path: Path) -> tuple[Settings, Settings]:
    """Return two installations over one lake: no lock file stands between their drivers."""
    lake = str(tmp_path / "lake")
    return quick.model_copy(update={"lake": lake}), quick.model_copy(update={"lake": lake, "home": tmp_path / "other"})


def test_driver_overtaken_before_its_commit_is_fenced(
    two_homes: tuple[Settings, Settings], topic: str, start: Start
) -> None:
    old, new = two_homes
    pipeline = rig.pipeline(topic)
    rig.send(old, topic, EVENTS)
    has_reached, may_continue = threading.Event(), threading.Event()

    def wait_before_commit(point: Point, epoch: int) -> None:
        if (point, epoch) == ("epoch.aggregated", 0):
            has_reached.set()
            assert may_continue.wait(WITHIN)

    overtaken = start(PipelineLake(old, pipeline), probe=wait_before_commit)
    assert has_reached.wait(WITHIN)
    lake = PipelineLake(new, pipeline)
    driver.run_driver(lake, until="drain")
    rig.send(new, topic, MORE)
    driver.run_driver(lake, until="drain")
    version = rig.epoch_log(lake).version
    may_continue.set()
    overtaken.join()

    assert isinstance(overtaken.failure, LakeError)
    assert (overtaken.failure.exit_code, overtaken.failure.runbook) == (2, "StreamFenced")
    assert "was committed by another driver (pid " in str(overtaken.failure)
    assert version == rig.epoch_log(lake).version
    assert rig.expect_cells([*EVENTS, *MORE]) == rig.count_by_cell(lake)
    last_beat = heartbeat.find_heartbeat(old, pipeline.name)
    assert last_beat is not None
    assert (last_beat.state, last_beat.runbook, last_beat.exit_code) == ("FAILED", "StreamFenced", 2)


def test_micro_batch_that_begins_elsewhere_than_the_epoch_is_refused(
    quick: Settings, topic: str, spark: SparkSession
) -> None:
    """Spark's notes and the table must name one place, or a record would name offsets that its rows do not hold."""
    pipeline = rig.pipeline(topic)
    rig.send(quick, topic, EVENTS)
    lake = PipelineLake(quick, pipeline)
    fed = Fed(spark, lake, HandClock())
    fed.feed({0: 4, 1: 4})
    fed.stream.position = {0: 4, 1: 3}

    with pytest.raises(LakeError, match=r"begins at \{0: 4, 1: 3\}, Spark noted \{0: 4, 1: 4\}"):
        fed.feed({0: 8, 1: 8})

    assert [record.epoch for record in rig.records(lake)] == [0]


def test_second_driver_of_one_installation_is_refused_at_once(quick: Settings, topic: str) -> None:
    pipeline = rig.pipeline(topic)

    with (
        only_driver(heartbeat.run_folder(quick, pipeline.name), pipeline.name),
        pytest.raises(LakeError, match=r"expected no driver in this installation, got one with pid \d+"),
    ):
        driver.run_driver(PipelineLake(quick, pipeline), until="drain")


def test_a_quiet_driver_asks_whether_the_log_is_the_same_when_a_connection_broke(
    spark: SparkSession, quick: Settings, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = rig.pipeline(topic)
    rig.send(quick, topic, [Event(id=i, minute=i, partition=i % 2) for i in range(4)])
    fed = Fed(spark, PipelineLake(quick, pipeline), HandClock())
    fed.feed({0: 2, 1: 2})
    client_mock = Mock()
    monkeypatch.setattr(same_log, "check_log_unchanged", client_mock)

    counts = []
    for is_broken, is_stopping in ((False, False), (True, False), (False, False), (True, True)):
        fed.stream.context.client.disconnects += is_broken
        if is_stopping:
            fed.stream.context.stopping.set()
        fed.poll()
        counts.append(client_mock.call_count)

    assert counts == [0, 1, 1, 1]
