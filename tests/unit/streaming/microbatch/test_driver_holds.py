"""State that a driver keeps between epochs: due panes, recorded settings, and the order of commits."""

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, call

import pyarrow as pa
import pytest

from cutover.definition.model.pipeline import Delivery
from cutover.engine import readback
from cutover.engine.effective_settings import EffectiveSettings
from cutover.errors import LakeError
from cutover.lake.epochs.delivery import Attempt
from cutover.streaming.microbatch import aggregate, epoch_record
from cutover.streaming.microbatch.aggregate import EpochPartials
from cutover.streaming.microbatch.engine import HeldState
from cutover.streaming.microbatch.epoch_record import DriverSettingsRecorder, _reject_other
from tests.support.suite.standing_clock import StandingClock
from tests.unit.streaming.epochs import FIRST, SCHEMA

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_MICROS = round(NOON.timestamp()) * 1_000_000


@pytest.mark.parametrize(("due", "expected"), [(None, False), (-1, True), (0, True), (1, False)])
def test_a_pane_is_due_once_its_period_has_ended_by_the_clock(due: int | None, *, expected: bool) -> None:
    state: Any = SimpleNamespace(
        due=None if due is None else NOON_MICROS + due, _context=SimpleNamespace(clock=StandingClock(NOON))
    )

    assert HeldState.is_pane_due.fget(state) is expected  # type: ignore[attr-defined]  # a property


@pytest.mark.parametrize(
    ("table_id", "version", "is_refused"),
    [("one", 3, False), ("one", 2, False), ("one", 1, True), ("two", 3, True), ("two", 1, True)],
)
def test_a_dimension_recreated_while_the_stream_runs_is_rejected(table_id: str, version: int, is_refused: bool) -> None:
    current: Any = Mock(table_id="one", version=2)
    candidate: Any = Mock(table_id=table_id, version=version)
    if not is_refused:
        _reject_other(Mock(), current, candidate)
        return
    with pytest.raises(LakeError, match=f"got version {version} of {table_id}: it was created again"):
        _reject_other(Mock(), current, candidate)


class Judged:
    """Session whose settings a test changes; it counts how often all of them are read."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.confs, self.reads = {"a": "1"}, 0
        self.recorder = DriverSettingsRecorder(Mock())
        self.warned = Mock()
        patched.setattr(readback, "read_confs", lambda _: dict(self.confs))
        patched.setattr(readback, "read_session_settings", self._read)
        patched.setattr(readback, "read_isolation", lambda *_: "read_uncommitted")
        patched.setattr(readback, "hash_modules", lambda _: {})
        patched.setattr(epoch_record, "log", SimpleNamespace(warning=self.warned))

    def _read(self, *_: object) -> EffectiveSettings:
        self.reads += 1
        return EffectiveSettings({"spark": dict(self.confs)})

    def add(self, previous_digest: str | None) -> tuple[str | None, Any]:
        record = self.recorder.add_settings(replace(FIRST, in_force=previous_digest), Mock(), None, "q")
        assert record.isolation == "read_uncommitted"
        return record.in_force, record.in_force_items


def test_settings_are_recorded_once_and_read_again_when_the_session_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Judged(monkeypatch)
    initial, other = EffectiveSettings({"spark": {"a": "1"}}), EffectiveSettings({"spark": {"a": "2"}})

    assert session.add(None) == (initial.digest, initial.families)
    assert session.add(initial.digest) == (initial.digest, None)
    assert (session.reads, session.warned.called) == (1, False)

    session.confs = {"a": "2"}

    assert session.add(initial.digest) == (other.digest, other.families)
    assert (session.reads, session.warned.call_count) == (2, 1)


ROWS = pa.Table.from_pylist([{"_kind": "partial", "_epoch": 0, "_record": None}], schema=SCHEMA)


@pytest.mark.parametrize(
    ("mode", "tick", "steps"),
    [
        ("exactly_once", False, ["commit"]),
        ("at_least_once", True, ["commit"]),
        ("at_least_once", False, ["add", "apart", "commit"]),
        ("at_most_once", False, ["commit", "apart", "add"]),
    ],
)
def test_data_are_committed_with_before_or_after_their_record(mode: Delivery, tick: bool, steps: list[str]) -> None:
    record = replace(FIRST, delivery=mode, tick=tick, counts={"accepted": 1}, windows=(4, 9))
    parts, files = Mock(), list[Any]([Mock()])
    epoch_partials = EpochPartials(rows=ROWS, counts=aggregate.NOTHING, spilled_files=files, number=1)

    epoch_record.deliver(parts.committer, ROWS, epoch_partials, record, parts.apart)

    attempt = Attempt(epoch=0, run_id=FIRST.run_id, start={0: 0}, end={0: 10}, counts={"accepted": 1}, windows=(4, 9))
    attempt_rows = pa.Table.from_pylist([{"_kind": "data", "_epoch": 0, "_record": attempt.to_json()}], schema=SCHEMA)
    calls = {
        "add": call.committer.add(pa.concat_tables([ROWS, attempt_rows]), 0, files),
        "apart": call.apart("epoch.apart", 0),
        "commit": call.committer.commit(ROWS, record, files)
        if len(steps) == 1
        else call.committer.commit(SCHEMA.empty_table(), record),
    }
    assert parts.mock_calls == [calls[step] for step in steps]
