"""Savepoints and forks of a real stream: kept through folds, gone back to, filled after a kill, refused if unsafe."""

import json
import threading
from dataclasses import replace

import pytest

from cutover.cli.app import main
from cutover.clock import Point, Probe, SystemClock, silent
from cutover.definition import Pipeline
from cutover.errors import DefinitionError, LakeError
from cutover.lake.control import pins, versions
from cutover.lake.control.versions import Fork, Version
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.tables import delta
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.verify.facts.facts import CheckState
from cutover.reconcile.verify.record import verify_pipeline
from cutover.settings import Settings
from cutover.streaming import driver
from cutover.streaming.process.heartbeat import only_driver, run_folder
from cutover.streaming.recovery import fork
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event
from tests.support.drivers.background import WITHIN

CLOCK = SystemClock()
EARLY = [Event(id=i, minute=i / 4, key="ab"[i % 2], partition=i % 2) for i in range(60)]
LATER = [Event(id=100 + i, minute=20 + i / 4, key="ab"[i % 2], partition=i % 2) for i in range(140)]
LATER += [Event(id=1000 + i, minute=0, logged=60, partition=0) for i in range(9)]  # late
KEPT, LATE_EPOCH = 2, 26


@pytest.fixture
def stream(quick: Settings, topic: str) -> tuple[Settings, Pipeline]:
    """Return a stream that has read the early events in some epochs, and nothing else yet."""
    settings, pipeline = rig.fast(quick, fold_every=6), rig.pipeline(topic, cap=20)
    rig.send(settings, topic, EARLY)
    driver.run_driver(PipelineLake(settings, pipeline), until="drain")
    return settings, pipeline


def current(lake: PipelineLake) -> Version:
    version = versions.find_current_version(lake)
    assert version is not None
    return version


def continue_stream(lake: PipelineLake, probe: Probe = silent) -> None:
    rig.send(lake.settings, lake.pipeline.source.name, LATER)
    driver.run_driver(lake, until="drain", probe=probe)


def waits_for_a_fold() -> Probe:
    """Return a probe that holds a late epoch until a fold is written, so that it is committed before the end."""
    event = threading.Event()

    def note_point(point: Point, epoch: int) -> None:
        if point == "compact.written":
            event.set()
        if point == "epoch.planned" and epoch == LATE_EPOCH:
            assert event.wait(WITHIN)

    return note_point


def test_fork_replays_what_came_after_the_savepoint_and_leaves_the_old_version_alone(
    stream: tuple[Settings, Pipeline],
) -> None:
    settings, pipeline = stream
    lake = PipelineLake(settings, pipeline)
    savepoint = fork.savepoint(lake, "before_release", KEPT, CLOCK)
    at_kept = rig.count_by_cell(lake, epoch=KEPT)
    continue_stream(lake)
    old, old_records = current(lake), rig.records(lake)
    old_version = rig.epoch_log(lake).version

    version = fork.fork(lake, savepoint.epoch, CLOCK)

    assert (version.number, version.fork) == (1, Fork(version=0, epoch=KEPT))
    assert rig.records(lake) == old_records[: KEPT + 1]
    assert rig.count_by_cell(lake) == at_kept
    driver.run_driver(lake, until="drain")
    assert rig.count_by_cell(lake) == rig.expect_cells([*EARLY, *LATER])
    assert rig.gaps(rig.records(lake)) == []
    verification = verify_pipeline(lake, clock=CLOCK)
    assert [name for name, check in verification.checks.items() if check.state is CheckState.VIOLATED] == []
    assert EpochLog(old.uri).version == old_version


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_fork_that_was_killed_before_its_rows_were_copied_is_filled_by_its_driver(
    stream: tuple[Settings, Pipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, pipeline = stream
    lake = PipelineLake(settings, pipeline)
    with monkeypatch.context() as patched:
        patched.setattr(fork, "copy_source_rows", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fork.fork(lake, 2, CLOCK)
    assert not delta.exists(current(lake).uri)

    continue_stream(lake)

    records = rig.records(lake)
    assert current(lake).number == 1
    assert [record.run_id for record in records[:3]] == [records[0].run_id] * 3
    assert records[3].run_id != records[2].run_id
    assert rig.count_by_cell(lake) == rig.expect_cells([*EARLY, *LATER])


def test_epoch_that_was_folded_into_later_ones_is_refused(stream: tuple[Settings, Pipeline]) -> None:
    settings, pipeline = stream
    continue_stream(PipelineLake(settings, replace(pipeline, max_rows_per_epoch=6)), waits_for_a_fold())

    lake = PipelineLake(settings, pipeline)
    with pytest.raises(LakeError, match=r"epoch 1 of stream-0: expected its own rows, accepted ones were folded"):
        fork.fork(lake, 1, CLOCK)
    with pytest.raises(LakeError, match=r"accepted ones were folded"):
        fork.savepoint(lake, "gone", 1, CLOCK)

    assert [version.number for version in versions.list_stream_versions(lake)] == [0]
    assert pins.list_savepoints(settings, current(lake)) == ()


def test_fork_is_refused_while_a_driver_lives_and_of_an_epoch_that_is_not_there(
    stream: tuple[Settings, Pipeline],
) -> None:
    settings, pipeline = stream
    lake = PipelineLake(settings, pipeline)
    with (
        only_driver(run_folder(settings, pipeline.name), pipeline.name),
        pytest.raises(LakeError, match="expected no driver"),
    ):
        fork.fork(lake, 1, CLOCK)
    with pytest.raises(DefinitionError, match=r"expected an existing epoch \(0 to \d+\), got 99"):
        fork.fork(lake, 99, CLOCK)


def test_sealed_epoch_is_no_place_to_go_on_from(stream: tuple[Settings, Pipeline]) -> None:
    settings, pipeline = stream
    lake = PipelineLake(settings, pipeline)
    driver.run_driver(lake, until="final")
    newest = rig.records(lake)[-1].epoch

    with pytest.raises(LakeError, match="closed all windows and sealed the version"):
        fork.fork(lake, newest, CLOCK)

    fork.fork(lake, newest - 1, CLOCK)
    continue_stream(lake)
    assert rig.count_by_cell(lake) == rig.expect_cells([*EARLY, *LATER])


@pytest.mark.quick
def test_commands_keep_list_go_back_and_release(
    stream: tuple[Settings, Pipeline],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings, pipeline = stream
    rig.for_commands(monkeypatch, settings, pipeline.source.name)

    def run_savepoint(code: int, *arguments: str) -> str:
        assert main(["savepoint", "clicks", *arguments]) == code
        output = capsys.readouterr()
        return " ".join((output.err if code else output.out).split())

    assert run_savepoint(0, "create", "calm", "--epoch", "1") == "clicks: `calm` keeps epoch 1 of stream-0."
    assert "expected a new name, `calm` is kept already" in run_savepoint(2, "create", "calm")
    assert "expected letters, digits and `_`" in run_savepoint(2, "create", "a/b")
    assert "expected a savepoint's name or --epoch, got none" in run_savepoint(2, "fork")
    assert "expected one of stream-0 (calm), got `storm`" in run_savepoint(2, "fork", "storm")
    assert "stream-1 begins after epoch 1 of stream-0." in run_savepoint(0, "fork", "calm")
    answer = json.loads(run_savepoint(0, "list", "--json"))
    assert [row["fork"] for row in answer["versions"]] == [None, {"version": 0, "epoch": 1}]
    assert [(row["name"], row["version"], row["epoch"]) for row in answer["savepoints"]] == [("calm", 0, 1)]
    assert "begins after epoch 1 of stream-0" in run_savepoint(0, "list")
    run_savepoint(0, "create", "here")
    assert "`here` keeps epoch 1 of stream-1 no longer." in run_savepoint(0, "release", "here")
    assert "`calm` keeps epoch 1 of stream-0 no longer." in run_savepoint(0, "release", "calm")
