"""Steps of the micro-batch engine: offset ranges, pace, ticks, and failures."""

import threading
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

from cutover.errors import LakeError
from cutover.records.watermark import Observation, WatermarkState
from cutover.streaming.microbatch import aggregate, engine, epoch_record
from cutover.streaming.microbatch.aggregate import EpochPlan
from cutover.streaming.microbatch.engine import MicrobatchEngine
from cutover.streaming.source import query
from tests.unit.streaming.epochs import FIRST

TRIGGER = 5.0
NEWEST = replace(FIRST, epoch=6, watermark_after=77, idle=(1,))
STATE = WatermarkState(watermark=77, idle=frozenset({1}))


def driver(**changes: Any) -> Any:
    """Build a mock engine after epoch 6, which has read partition 0 up to offset 5."""
    mock_engine = Mock(limit=None, position={0: 5}, lock=threading.Lock(), failure=None, drained=False)
    mock_engine.committer.newest = NEWEST
    mock_engine.context.pipeline.max_rows_per_epoch = 100
    mock_engine.context.lake.settings.stream.trigger_seconds = TRIGGER
    mock_engine.context.stopping.is_set.return_value = False
    mock_engine.context.time_policy.closes = True
    mock_engine.configure_mock(**changes)
    return mock_engine


def planned(mock_engine: Any, noted: Mapping[int, int], monkeypatch: pytest.MonkeyPatch) -> EpochPlan:
    monkeypatch.setattr(query, "end_offsets", lambda *_: noted)
    return MicrobatchEngine._plan(mock_engine, 0)


def test_an_epoch_reads_up_to_sparks_end_and_new_partitions_from_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(driver(), {0: 9, 1: 3}, monkeypatch)

    assert plan == EpochPlan(epoch=7, start={0: 5, 1: 0}, end={0: 9, 1: 3}, clipped=False, watermark=77)
    assert plan.span == 4 + 3


def test_a_drain_reads_only_up_to_its_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = planned(driver(limit={0: 7}), {0: 9, 1: 3}, monkeypatch)

    assert (plan.end, plan.clipped, plan.span) == ({0: 7, 1: 0}, True, 2)


def test_first_epoch_and_unclosing_windows_have_no_watermark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fresh, never = driver(), driver()
    fresh.committer.newest = None
    never.context.time_policy.closes = False

    plans = [planned(mock_engine, {0: 9}, monkeypatch) for mock_engine in (fresh, never)]

    assert [(plan.epoch, plan.watermark) for plan in plans] == [(0, None), (7, None)]


@pytest.mark.parametrize(("begins", "is_refused"), [({0: 5}, False), ({0: 5, 1: 0}, False), ({0: 6}, True), ({}, True)])
def test_a_micro_batch_must_start_where_the_newest_epoch_ended(begins: Mapping[int, int], is_refused: bool) -> None:
    mock_engine = driver(position={0: 5, 2: 0})
    if not is_refused:
        MicrobatchEngine._reject_other_start(mock_engine, begins)
        return
    with pytest.raises(LakeError, match="expected a micro-batch that begins at"):
        MicrobatchEngine._reject_other_start(mock_engine, begins)


@pytest.mark.parametrize(
    ("limit", "position", "expected"),
    [
        (None, {0: 9}, False),
        ({0: 5, 1: 3}, {0: 5, 1: 3}, True),
        ({0: 5, 1: 3}, {0: 6, 1: 2}, False),
        ({0: 5, 1: 1}, {0: 5}, False),
        ({0: 5, 1: 0}, {0: 5}, True),
    ],
)
def test_a_drain_ends_once_every_partition_reached_its_cut(
    limit: Mapping[int, int] | None, position: Mapping[int, int], *, expected: bool
) -> None:
    mock_engine: Any = SimpleNamespace(limit=limit, position=position)

    assert MicrobatchEngine.drained.fget(mock_engine) is expected  # type: ignore[attr-defined]  # a property


@pytest.mark.parametrize(("span", "waits"), [(0, True), (49, True), (50, False)])
def test_a_driver_that_keeps_up_waits_for_its_trigger(span: int, waits: bool) -> None:
    mock_engine = driver()
    mock_engine._process_epoch.return_value = span

    MicrobatchEngine.process_batch(mock_engine, Mock(), 1)

    pauses = [call.args[0] for call in mock_engine.context.stopping.wait.call_args_list]
    assert len(pauses) == int(waits)
    assert all(TRIGGER - 2 < pause <= TRIGGER for pause in pauses)
    assert mock_engine.wake.set.called


@pytest.mark.parametrize(("stopping", "drained"), [(True, False), (False, True)])
def test_a_stopping_or_drained_driver_processes_no_further_micro_batch(stopping: bool, drained: bool) -> None:
    mock_engine = driver(drained=drained)
    mock_engine.context.stopping.is_set.return_value = stopping

    MicrobatchEngine.process_batch(mock_engine, Mock(), 1)

    assert mock_engine._process_epoch.called is False
    assert mock_engine.context.stopping.wait.called is not drained


def test_a_failure_is_stored_and_wakes_the_waiting_thread() -> None:
    mock_engine = driver()
    mock_engine._process_epoch.side_effect = LakeError("no")

    with pytest.raises(LakeError) as failed:
        MicrobatchEngine.process_batch(mock_engine, Mock(), 1)
    assert mock_engine.failure is failed.value
    assert mock_engine.wake.set.called


def test_an_epoch_without_offsets_is_not_read() -> None:
    mock_engine = driver()
    mock_engine._plan.return_value = EpochPlan(epoch=7, start={0: 5}, end={0: 5}, clipped=False, watermark=None)

    assert MicrobatchEngine._process_epoch(mock_engine, Mock(), 1) == 0
    assert (mock_engine._read.called, mock_engine._commit.called) == (False, False)


def test_an_epoch_is_committed_with_its_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    mock_engine = driver()
    mock_engine._plan.return_value = EpochPlan(epoch=7, start={0: 5}, end={0: 9}, clipped=False, watermark=None)
    mock_engine.recorder.record_batch.return_value = replace(FIRST, seconds=99.0)
    monkeypatch.setattr(aggregate, "newest_events", Mock())

    assert MicrobatchEngine._process_epoch(mock_engine, Mock(), 1) == 4

    record = mock_engine._commit.call_args.args[1]
    assert 0 <= record.seconds != 99.0
    assert mock_engine.time is mock_engine._advance.return_value


def test_a_commit_is_measured_and_followed_by_all_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    mock_engine, empty = driver(), pa.table({"n": pa.array([], pa.int64())})
    mock_engine.committer.written_bytes = 12
    mock_engine.state.make_id_rows.return_value = mock_engine.state.make_pane_rows.return_value = empty
    monkeypatch.setattr(engine, "epoch_log_schema", Mock())
    monkeypatch.setattr(epoch_record, "table_rows", lambda *_: empty)
    monkeypatch.setattr(epoch_record, "deliver", Mock())

    MicrobatchEngine._commit(mock_engine, Mock(), FIRST)

    call_args = mock_engine.context.metrics.note_epoch.call_args
    assert (call_args.args, call_args.kwargs["written_bytes"]) == ((FIRST,), 12)
    assert 0 <= call_args.kwargs["commit_seconds"] < 5
    mock_engine._note_commit.assert_called_once_with(FIRST)
    mock_engine.state.note_commit.assert_called_once_with(FIRST, None, empty)
    assert mock_engine.compactor.step.called


@pytest.mark.parametrize("stopping", [False, True])
def test_a_stopping_driver_polls_the_log_but_changes_nothing(stopping: bool) -> None:
    mock_engine = driver()
    mock_engine.context.stopping.is_set.return_value = stopping

    MicrobatchEngine.poll(mock_engine)

    mock_engine.continuity.note_ends.assert_called_once_with(
        mock_engine.continuity.read_ends.return_value, prove=not stopping
    )
    for step in (mock_engine._tick_if_due, mock_engine.compactor.step, mock_engine.state.send):
        assert step.called is not stopping


@pytest.mark.parametrize(
    ("final", "newest", "ticks"),
    [
        (False, replace(NEWEST, end={0: 5}), False),
        (False, replace(NEWEST, end={0: 4}), True),
        (False, None, True),
        (True, replace(NEWEST, end={0: 5}), True),
    ],
)
def test_a_drain_adds_a_tick_if_no_epoch_has_its_cut(final: bool, newest: Any, ticks: bool) -> None:
    mock_engine = driver()
    mock_engine.committer.newest = newest

    MicrobatchEngine.finish(mock_engine, final=final)

    assert [call.kwargs for call in mock_engine.tick.call_args_list] == ([{"final": final}] if ticks else [])


@pytest.mark.parametrize("newest", [None, NEWEST])
@pytest.mark.parametrize("is_same_log", [True, False])
def test_a_tick_is_committed_only_if_the_log_is_the_same(newest: Any, is_same_log: bool) -> None:
    mock_engine = driver()
    mock_engine.committer.newest = newest
    mock_engine.continuity.await_same_log.return_value = is_same_log
    engine_schema = pa.schema([("n", pa.int64())])

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine, "partial_schema", lambda _: engine_schema)
        MicrobatchEngine.tick(mock_engine, STATE, final=False)

    (plan, state), options = mock_engine.recorder.record_tick.call_args
    assert (plan.epoch, plan.watermark) == ((0, None) if newest is None else (7, 77))
    assert (plan.start, plan.end, plan.span, state, options) == ({0: 5}, {0: 5}, 0, STATE, {"final": False})
    assert [call.args[0].counts for call in mock_engine._commit.call_args_list] == (
        [aggregate.NOTHING] if is_same_log else []
    )


@pytest.mark.parametrize(
    ("state", "pane_due", "ticks"),
    [
        (STATE, False, False),
        (replace(STATE, watermark=78), False, True),
        (replace(STATE, idle=frozenset({1, 2})), False, True),
        (replace(STATE, idle=frozenset()), False, False),
        (STATE, True, True),
    ],
    ids=["nothing", "time moved on", "a partition fell idle", "a partition woke", "a pane is due"],
)
def test_a_driver_ticks_if_time_advances_without_records(state: WatermarkState, pane_due: bool, ticks: bool) -> None:
    mock_engine = driver()
    mock_engine._advance.return_value, mock_engine.state.is_pane_due = state, pane_due

    MicrobatchEngine._tick_if_due(mock_engine)

    assert [call.args for call in mock_engine.tick.call_args_list] == ([(state,)] if ticks else [])
    assert mock_engine.time is state


def test_there_is_no_tick_before_the_first_epoch() -> None:
    mock_engine = driver()
    mock_engine.committer.newest = None

    MicrobatchEngine._tick_if_due(mock_engine)

    assert (mock_engine._advance.called, mock_engine.tick.called) == (False, False)


def test_the_end_of_the_log_is_never_before_the_offsets_read() -> None:
    mock_engine = driver()
    mock_engine.continuity.high = {0: 5, 2: 0, 3: 9}
    mock_engine.context.clock.monotonic.return_value = 1.5

    MicrobatchEngine._advance(mock_engine, {0: 40}, {0: 7, 1: 0, 3: 4})

    _, observation, _ = mock_engine.context.time_policy.advance.call_args.args
    assert observation == Observation(
        now=1.5, read={0: 7, 1: 0, 3: 4}, high={0: 7, 1: 0, 2: 0, 3: 9}, max_event={0: 40}
    )
