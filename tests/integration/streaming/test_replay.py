"""A replay: a version beside the one that serves, filled while its driver is at work, compared, and let serve."""

import pytest

from cutover.batch import recompute
from cutover.cli.app import main
from cutover.clock import SystemClock
from cutover.definition import Pipeline
from cutover.errors import CutoverError, DefinitionError
from cutover.lake.control import versions
from cutover.lake.control.versions import looking_at
from cutover.reconcile.result.outcome import Verdict
from cutover.reconcile.run import reconcile
from cutover.reconcile.verify.model import CheckState
from cutover.reconcile.verify.runner import verify
from cutover.settings import Settings
from cutover.streaming import driver
from cutover.streaming.process.heartbeat import folder
from cutover.streaming.process.lock import only_driver
from cutover.streaming.replay import replay
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event

CLOCK = SystemClock()
EVENTS = [Event(id=i, minute=i / 4, key="ab"[i % 2], partition=i % 2) for i in range(80)]
EVENTS += [Event(id=1000 + i, minute=0, logged=60, partition=0) for i in range(5)]  # late, where epochs are small
FROM = 1


class GoneError(Exception):
    """The driver of a replay is gone, in the middle of an epoch."""


def gone_once(point: str, epoch: int) -> None:
    if (point, epoch) == ("epoch.aggregated", 3):
        raise GoneError


def test_replay_beside_a_driver_is_killed_goes_on_is_compared_and_serves(
    quick: Settings, topic: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings, pipeline = rig.fast(quick, fold_every=1_000), rig.pipeline(topic, cap=20)
    rig.send(settings, topic, EVENTS)
    driver.run(settings, pipeline, until="drain")
    served = rig.epoch_log(settings, pipeline).version

    with only_driver(folder(settings, pipeline.name), pipeline.name):  # as the driver at work holds it
        with pytest.raises(CutoverError, match="GoneError"):
            replay(settings, pipeline, 1, CLOCK, epoch=FROM, probe=gone_once)
        replay(settings, pipeline, 1, CLOCK)
        replay(settings, pipeline, 2, CLOCK)

    looked = {number: looking_at(settings, number) for number in (1, 2)}
    assert served == rig.epoch_log(settings, pipeline).version
    assert rig.records(looked[1], pipeline)[: FROM + 1] == rig.records(settings, pipeline)[: FROM + 1]
    for chosen in looked.values():
        assert rig.counted(chosen, pipeline) == rig.expected(EVENTS)
        assert rig.gaps(rig.records(chosen, pipeline)) == []
    assert_compared(looked[2], pipeline)

    rig.for_commands(monkeypatch, settings, topic)
    assert main(["serve", pipeline.name, "--version", "2", "--why", "one order of epochs"]) == 0
    assert "stream-2 serves" in capsys.readouterr().out
    rig.send(settings, topic, [Event(id=5_000, minute=70, key="a", partition=0)])
    driver.run(settings, pipeline, until="drain")
    version = versions.current(settings, pipeline)
    assert version is not None
    assert version.number == 2
    assert rig.counted(settings, pipeline) == rig.expected([*EVENTS, Event(id=5_000, minute=70, key="a", partition=0)])
    assert rig.counted(looked[1], pipeline) == rig.expected(EVENTS)


def assert_compared(settings: Settings, pipeline: Pipeline) -> None:
    recompute.run(settings, pipeline)
    found = reconcile(settings, pipeline)
    assert found.verdict in {Verdict.CONSISTENT, Verdict.EXPLAINED}
    assert found.seal.versions.stream == settings.stream_version
    checks = verify(settings, pipeline, clock=CLOCK).checks
    assert [name for name, each in checks.items() if each.state is CheckState.VIOLATED] == []


def test_replay_into_another_number_or_from_elsewhere_is_refused(quick: Settings, topic: str) -> None:
    pipeline = rig.pipeline(topic)
    versions.open_or_create(quick, pipeline, CLOCK)
    versions.register(quick, pipeline, CLOCK, turn=versions.next_turn(quick, pipeline), beside=True)

    for number, epoch, said in (
        (5, None, r"expected the next version \(2\) or one that a replay fills, got 5, which is not there"),
        (0, None, "got 0, which serves or has served"),
        (1, 3, "expected to go on from the log's beginning, got epoch 3"),
    ):
        with pytest.raises(DefinitionError, match=said):
            replay(quick, pipeline, number, CLOCK, epoch=epoch)
    assert len(versions.list_versions(quick, pipeline)) == len(["serves", "beside"])
