"""What a driver does with a micro-batch and between two: from where to where, at what pace, and when it ticks."""

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
from cutover.streaming.microbatch import aggregate, delivery, engine
from cutover.streaming.microbatch.aggregate import EpochPlan
from cutover.streaming.microbatch.engine import MicrobatchEngine
from cutover.streaming.source import query
from tests.unit.streaming.epochs import FIRST

TRIGGER = 5.0
NEWEST = replace(FIRST, epoch=6, watermark_after=77, idle=(1,))
STATE = WatermarkState(watermark=77, idle=frozenset({1}))


def driver(**changes: Any) -> Any:
    """Return a driver behind epoch 6, which has read partition 0 up to offset 5."""
    made = Mock(limit=None, position={0: 5}, lock=threading.Lock(), failure=None, drained=False)
    made.committer.newest = NEWEST
    made.context.pipeline.max_rows_per_epoch = 100
    made.context.settings.stream.trigger_seconds = TRIGGER
    made.context.stopping.is_set.return_value = False
    made.context.time_policy.closes = True
    made.configure_mock(**changes)
    return made


def planned(made: Any, noted: Mapping[int, int], monkeypatch: pytest.MonkeyPatch) -> EpochPlan:
    monkeypatch.setattr(query, "end_offsets", lambda *_: noted)
    return MicrobatchEngine._plan(made, 0)


def test_an_epoch_reads_on_to_what_spark_noted_and_a_new_partition_from_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(driver(), {0: 9, 1: 3}, monkeypatch)

    assert plan == EpochPlan(epoch=7, start={0: 5, 1: 0}, end={0: 9, 1: 3}, clipped=False, watermark=77)
    assert plan.span == 4 + 3


def test_a_drain_reads_no_further_than_its_cut_and_nothing_of_a_partition_that_this_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = planned(driver(limit={0: 7}), {0: 9, 1: 3}, monkeypatch)

    assert (plan.end, plan.clipped, plan.span) == ({0: 7, 1: 0}, True, 2)


def test_the_first_epoch_is_judged_by_no_watermark_and_so_is_one_whose_windows_never_close(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, never = driver(), driver()
    first.committer.newest = None
    never.context.time_policy.closes = False

    plans = [planned(made, {0: 9}, monkeypatch) for made in (first, never)]

    assert [(plan.epoch, plan.watermark) for plan in plans] == [(0, None), (7, None)]


@pytest.mark.parametrize(("begins", "is_refused"), [({0: 5}, False), ({0: 5, 1: 0}, False), ({0: 6}, True), ({}, True)])
def test_a_micro_batch_that_begins_elsewhere_than_the_newest_epoch_ended_is_refused(
    begins: Mapping[int, int], is_refused: bool
) -> None:
    made = driver(position={0: 5, 2: 0})
    if not is_refused:
        MicrobatchEngine._refuse_other_start(made, begins)
        return
    with pytest.raises(LakeError, match="expected a micro-batch that begins at"):
        MicrobatchEngine._refuse_other_start(made, begins)


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
def test_a_drain_is_over_once_every_partition_is_read_up_to_its_cut(
    limit: Mapping[int, int] | None, position: Mapping[int, int], *, expected: bool
) -> None:
    made: Any = SimpleNamespace(limit=limit, position=position)

    assert MicrobatchEngine.drained.fget(made) is expected  # type: ignore[attr-defined]  # a property


@pytest.mark.parametrize(("span", "waits"), [(0, True), (49, True), (50, False)])
def test_a_driver_that_keeps_up_waits_out_the_rest_of_its_trigger(span: int, waits: bool) -> None:
    made = driver()
    made._process_epoch.return_value = span

    MicrobatchEngine.process_batch(made, Mock(), 1)

    pauses = [call.args[0] for call in made.context.stopping.wait.call_args_list]
    assert len(pauses) == int(waits)
    assert all(TRIGGER - 2 < pause <= TRIGGER for pause in pauses)
    assert made.wake.set.called


@pytest.mark.parametrize(("stopping", "drained"), [(True, False), (False, True)])
def test_a_driver_that_stops_or_is_drained_takes_no_further_micro_batch(stopping: bool, drained: bool) -> None:
    made = driver(drained=drained)
    made.context.stopping.is_set.return_value = stopping

    MicrobatchEngine.process_batch(made, Mock(), 1)

    assert made._process_epoch.called is False
    assert made.context.stopping.wait.called is not drained


def test_what_fails_is_kept_and_wakes_who_waits() -> None:
    made = driver()
    made._process_epoch.side_effect = LakeError("no")

    with pytest.raises(LakeError) as failed:
        MicrobatchEngine.process_batch(made, Mock(), 1)
    assert made.failure is failed.value
    assert made.wake.set.called


def test_an_epoch_of_no_offset_is_not_read() -> None:
    made = driver()
    made._plan.return_value = EpochPlan(epoch=7, start={0: 5}, end={0: 5}, clipped=False, watermark=None)

    assert MicrobatchEngine._process_epoch(made, Mock(), 1) == 0
    assert (made._read.called, made._commit.called) == (False, False)


def test_an_epoch_is_committed_with_the_seconds_that_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    made = driver()
    made._plan.return_value = EpochPlan(epoch=7, start={0: 5}, end={0: 9}, clipped=False, watermark=None)
    made.recorder.record_batch.return_value = replace(FIRST, seconds=99.0)
    monkeypatch.setattr(aggregate, "newest_events", Mock())

    assert MicrobatchEngine._process_epoch(made, Mock(), 1) == 4

    record = made._commit.call_args.args[1]
    assert 0 <= record.seconds < 5
    assert made.time is made._advance.return_value


def test_a_commit_is_measured_and_everything_follows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made, empty = driver(), pa.table({"n": pa.array([], pa.int64())})
    made.committer.written_bytes = 12
    made.state.make_id_rows.return_value = made.state.make_pane_rows.return_value = empty
    monkeypatch.setattr(engine, "epoch_log_schema", Mock())
    monkeypatch.setattr(delivery, "table_rows", lambda *_: empty)
    monkeypatch.setattr(delivery, "deliver", Mock())

    MicrobatchEngine._commit(made, Mock(), FIRST)

    call_args = made.context.metrics.note_epoch.call_args
    assert (call_args.args, call_args.kwargs["written_bytes"]) == ((FIRST,), 12)
    assert 0 <= call_args.kwargs["commit_seconds"] < 5
    made._note_commit.assert_called_once_with(FIRST)
    made.state.note_commit.assert_called_once_with(FIRST, None, empty)
    assert made.compactor.step.called


@pytest.mark.parametrize("stopping", [False, True])
def test_a_driver_asked_to_stop_looks_at_the_log_and_changes_nothing(stopping: bool) -> None:
    made = driver()
    made.context.stopping.is_set.return_value = stopping

    MicrobatchEngine.poll(made)

    made.continuity.note_ends.assert_called_once_with(made.continuity.read_ends.return_value, prove=not stopping)
    for step in (made._tick_if_due, made.compactor.step, made.state.send):
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
def test_a_drain_ends_with_a_cut_of_its_own_where_no_epoch_has_it(final: bool, newest: Any, ticks: bool) -> None:
    made = driver()
    made.committer.newest = newest

    MicrobatchEngine.finish(made, final=final)

    assert [call.kwargs for call in made.tick.call_args_list] == ([{"final": final}] if ticks else [])


@pytest.mark.parametrize("newest", [None, NEWEST])
@pytest.mark.parametrize("same", [True, False])
def test_a_tick_reads_nothing_and_is_committed_while_the_log_is_the_same(newest: Any, same: bool) -> None:
    made = driver()
    made.committer.newest = newest
    made.continuity.await_same_log.return_value = same
    engine_schema = pa.schema([("n", pa.int64())])

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine, "partial_schema", lambda _: engine_schema)
        MicrobatchEngine.tick(made, STATE, final=False)

    (plan, state), options = made.recorder.record_tick.call_args
    assert (plan.epoch, plan.watermark) == ((0, None) if newest is None else (7, 77))
    assert (plan.start, plan.end, plan.span, state, options) == ({0: 5}, {0: 5}, 0, STATE, {"final": False})
    assert [call.args[0].counted for call in made._commit.call_args_list] == ([aggregate.NOTHING] if same else [])


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
def test_a_driver_ticks_once_time_moved_on_without_records(state: WatermarkState, pane_due: bool, ticks: bool) -> None:
    made = driver()
    made._advance.return_value, made.state.is_pane_due = state, pane_due

    MicrobatchEngine._tick_if_due(made)

    assert [call.args for call in made.tick.call_args_list] == ([(state,)] if ticks else [])
    assert made.time is state


def test_before_the_first_epoch_nothing_ticks() -> None:
    made = driver()
    made.committer.newest = None

    MicrobatchEngine._tick_if_due(made)

    assert (made._advance.called, made.tick.called) == (False, False)


def test_the_log_ends_nowhere_before_what_was_read_of_it() -> None:
    made = driver()
    made.continuity.high = {0: 5, 2: 0, 3: 9}
    made.context.clock.monotonic.return_value = 1.5

    MicrobatchEngine._advance(made, {0: 40}, {0: 7, 1: 0, 3: 4})

    _, seen, _ = made.context.time_policy.advance.call_args.args
    assert seen == Observation(now=1.5, read={0: 7, 1: 0, 3: 4}, high={0: 7, 1: 0, 2: 0, 3: 9}, max_event={0: 40})
