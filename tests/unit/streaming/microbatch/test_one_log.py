"""Proof that an epoch's records come from one log, and the driver's reaction if it cannot ask before the commit."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.errors import LogError
from cutover.log.cut import LogEnd, LogId, Mark
from cutover.pipeline_lake import PipelineLake
from cutover.streaming.microbatch import continuity, engine
from cutover.streaming.microbatch.aggregate import EpochPlan
from cutover.streaming.microbatch.continuity import Continuity
from cutover.streaming.process.context import DriverContext
from cutover.streaming.process.heartbeat import HeartbeatWriter, first_beat
from tests.support.suite.standing_clock import StandingClock

LOG = LogId(cluster_id="C", topic="t", topic_id="A")
PIPELINE = Pipeline(
    name="p",
    source=Topic(name="t", schema="at timestamp", event_time="at"),
    key=("at",),
    window=Fixed(hours=1),
    measures={"n": Count()},
)
PLAN = EpochPlan(epoch=3, start={0: 5, 1: 5}, end={0: 9, 1: 9}, clipped=False, watermark=None)
GONE = LogError("No broker answers.", runbook="KafkaUnreachable")
ENDS = {0: LogEnd(offset=9, leader_epoch=1)}


class HeldLog:
    """Fake `MarkReader`, which reads the last record of each partition before its end from the current log."""

    def __init__(self, *_: object) -> None:
        self.digest = "same"

    def read_last(self, ranges: Mapping[int, tuple[int, int]]) -> dict[int, tuple[Mark, ...]]:
        return {p: (Mark(end - 1, start, self.digest),) for p, (start, end) in ranges.items()}


@pytest.fixture
def context(tmp_path: Path) -> DriverContext:
    clock, client = StandingClock(datetime(2026, 1, 1, tzinfo=UTC)), Mock(disconnects=0)
    client.topic_id.return_value = LOG.topic_id
    beat = HeartbeatWriter(tmp_path / "heartbeat.json", first_beat("r", clock), seconds=60, clock=clock)
    return DriverContext(
        lake=PipelineLake(Mock(), PIPELINE), client=client, clock=clock, probe=Mock(), beat=beat, place=tmp_path
    )


@pytest.fixture
def observed_log(context: DriverContext, monkeypatch: pytest.MonkeyPatch) -> Continuity:
    """Build the log continuity of a driver before its first epoch."""
    monkeypatch.setattr(continuity, "MarkReader", HeldLog)
    return Continuity(context, Mock(newest=None), LOG)


def leaders(*epochs: int) -> dict[int, LogEnd]:
    return {p: LogEnd(offset=9, leader_epoch=epoch) for p, epoch in enumerate(epochs)}


def is_one_log(
    continuity: Continuity, context: Any, *, now: tuple[int, ...], cuts: int = 0, is_changed: bool = False
) -> bool:
    """Check whether records read under leaders (1, 1) count as one log if `now` lead at the end."""
    proof_before = continuity.prove(leaders(1, 1))
    marks = continuity.mark(PLAN).result()
    reader: Any = continuity._reader
    reader.digest = "other" if is_changed else "same"
    context.client.disconnects = cuts
    continuity.prove(leaders(*now))
    return continuity.is_from_one_log(proof_before, PLAN, marks)


def test_records_of_the_same_leaders_and_connection_are_not_read_twice(
    observed_log: Continuity, context: DriverContext
) -> None:
    assert is_one_log(observed_log, context, now=(1, 1), is_changed=True)


@pytest.mark.parametrize("now", [(2, 1), (1, 2), (2, 2), (1,)])
def test_records_of_a_partition_with_two_leaders_are_not_of_one_log(
    observed_log: Continuity, context: DriverContext, now: tuple[int, ...]
) -> None:
    assert not is_one_log(observed_log, context, now=now)


@pytest.mark.parametrize(("now", "cuts"), [((1, 1), 1), ((1, 1, 0), 0)], ids=["connection cut", "partition added"])
@pytest.mark.parametrize("is_changed", [False, True])
def test_with_unchanged_leaders_the_marks_identify_the_log(
    observed_log: Continuity, context: DriverContext, now: tuple[int, ...], cuts: int, *, is_changed: bool
) -> None:
    assert is_one_log(observed_log, context, now=now, cuts=cuts, is_changed=is_changed) is not is_changed


def test_driver_stopped_while_no_broker_answers_commits_nothing(observed_log: Continuity, context: Any) -> None:
    context.client.log_ends.side_effect = GONE
    context.stopping.set()

    assert observed_log.await_same_log() is False
    assert observed_log.health.is_silent


def test_driver_waits_for_a_broker_and_continues_once_it_answers(context: Any) -> None:
    continuity = Continuity(replace(context, stopping=Mock(**{"wait.return_value": False})), Mock(newest=None), LOG)
    context.client.log_ends.side_effect = [GONE, GONE, ENDS]

    assert continuity.await_same_log() is True
    assert (continuity.health.is_silent, continuity.high) == (False, {0: 9})


def test_recreated_topic_is_rejected_immediately(observed_log: Continuity, context: Any) -> None:
    context.client.log_ends.return_value = ENDS
    context.client.topic_id.return_value = "B"

    with pytest.raises(LogError) as refused:
        observed_log.await_same_log()
    assert refused.value.runbook != GONE.runbook


def test_epoch_of_a_stopping_driver_commits_nothing() -> None:
    driver: Any = Mock()
    driver._plan.return_value, driver._read.return_value = PLAN, None

    assert engine.MicrobatchEngine._process_epoch(driver, Mock(), 7) == 0
    assert driver._commit.called is False
