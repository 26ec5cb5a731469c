"""What was recorded before and behind a deletion is told by sequences, whatever the clocks say."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.lake.control import control_tables, versions
from cutover.lake.control.stages import Stage, current_stage
from cutover.lake.control.versions import BATCH
from cutover.settings import Settings
from tests.support.history.watch_facts import PIPELINE
from tests.support.suite.standing_clock import StandingClock

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DAYS = timedelta(days=2)
OWN = result_fingerprint(PIPELINE)


def move(settings: Settings, at: datetime) -> None:
    row = {"pipeline": PIPELINE.name, "at": at, "event": "advanced", "stage": "SHADOW", "result_fingerprint": OWN}
    control_tables.append(settings, "gate", [row | {"stream_version": 0, "evidence": "{}", "seen": 0}])


def compare(settings: Settings, at: datetime) -> None:
    row = {"pipeline": PIPELINE.name, "at": at, "run_id": "r", "result_fingerprint": OWN, "verdict": "CONSISTENT"}
    control_tables.append(settings, "reconciliations", [row])


def delete(settings: Settings, number: int = BATCH, at: datetime = NOON) -> None:
    turn = versions.next_turn(settings, PIPELINE)
    place = (PIPELINE.name, OWN, number)
    versions.record_deletion(settings, *place, why="nobody is served", clock=StandingClock(at), turn=turn)


@pytest.fixture(autouse=True)
def _registered(settings: Settings) -> None:
    versions.open_or_create(settings, PIPELINE, StandingClock(NOON))


@pytest.mark.parametrize("off", [-DAYS, timedelta(0), DAYS], ids=["clock behind", "one clock", "clock ahead"])
def test_a_move_counts_if_it_was_made_behind_the_deletion_of_the_batch_tables(
    settings: Settings, off: timedelta
) -> None:
    move(settings, NOON + off)
    before = current_stage(settings, PIPELINE)
    delete(settings)
    deleted = current_stage(settings, PIPELINE)
    move(settings, NOON - off)

    assert (before, deleted, current_stage(settings, PIPELINE)) == (Stage.SHADOW, Stage.LAMBDA, Stage.SHADOW)


@pytest.mark.parametrize("off", [-DAYS, timedelta(0), DAYS], ids=["clock behind", "one clock", "clock ahead"])
def test_a_comparison_is_behind_a_deletion_by_its_sequence(settings: Settings, off: timedelta) -> None:
    compare(settings, NOON + off)
    delete(settings)
    compare(settings, NOON - off)
    found = versions.find_deletion(settings, PIPELINE.name, OWN, BATCH)
    assert found is not None

    rows = control_tables.read(settings, "reconciliations", PIPELINE.name)
    assert [found.is_before("reconciliations", row) for row in rows] == [False, True]


def test_a_deletion_that_was_taken_back_is_none_and_registers_nothing(settings: Settings) -> None:
    delete(settings, number=7)
    versions.take_deletion_back(settings, PIPELINE.name, OWN, 7, StandingClock(NOON))

    assert versions.find_deletion(settings, PIPELINE.name, OWN, 7) is None
    assert [one.number for one in versions.read_registrations(settings, PIPELINE.name)] == [0]


@pytest.mark.parametrize(("hours", "expected"), [(1, Stage.SHADOW), (-1, Stage.LAMBDA)])
def test_of_a_deletion_that_noted_no_sequences_the_times_are_compared(
    settings: Settings, hours: int, expected: Stage
) -> None:
    row = {"pipeline": PIPELINE.name, "result_fingerprint": OWN, "stream_version": BATCH, "deleted": True}
    control_tables.append(settings, "versions", [row | {"created_at": NOON, "definition": json.dumps({})}])
    move(settings, NOON + timedelta(hours=hours))

    assert current_stage(settings, PIPELINE) is expected
