"""Records before and after a deletion, distinguished by sequence numbers and not by clocks."""

from datetime import UTC, datetime, timedelta

import pytest

from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.policy import Stage
from cutover.lake.control import versions
from cutover.lake.control.served import current_stage
from cutover.lake.control.versions import BATCH
from cutover.lake.journal import Journal
from cutover.lake.journal_rows import ComparisonRow
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from tests.support.history.journal_rows import make_row, record_stage
from tests.support.history.watch_facts import PIPELINE
from tests.support.suite.standing_clock import StandingClock

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DAYS = timedelta(days=2)
OWN = result_fingerprint(PIPELINE)


def move(settings: Settings, at: datetime) -> None:
    record_stage(PipelineLake(settings, PIPELINE), "SHADOW", at=at)


def compare(settings: Settings, at: datetime) -> None:
    row = make_row(ComparisonRow, pipeline=PIPELINE.name, at=at, result_fingerprint=OWN, verdict="CONSISTENT")
    Journal(settings, PIPELINE.name, ComparisonRow).append(row)


def delete(settings: Settings, number: int = BATCH, at: datetime = NOON) -> None:
    place, sequence = (
        (PIPELINE.name, OWN, number),
        versions.read_next_version_sequence(PipelineLake(settings, PIPELINE)),
    )
    clock = StandingClock(at)
    versions.record_deletion(settings, *place, why="nobody is served", clock=clock, expected_sequence=sequence)


@pytest.fixture(autouse=True)
def _registered(settings: Settings) -> None:
    versions.open_or_create(PipelineLake(settings, PIPELINE), StandingClock(NOON))


@pytest.mark.parametrize("off", [-DAYS, timedelta(0), DAYS], ids=["clock behind", "one clock", "clock ahead"])
def test_a_move_counts_if_it_follows_the_deletion_of_the_batch_tables(settings: Settings, off: timedelta) -> None:
    move(settings, NOON + off)
    lake = PipelineLake(settings, PIPELINE)
    stage = current_stage(lake)
    delete(settings)
    deleted = current_stage(lake)
    move(settings, NOON - off)

    assert (stage, deleted, current_stage(lake)) == (Stage.SHADOW, Stage.LAMBDA, Stage.SHADOW)


@pytest.mark.parametrize("off", [-DAYS, timedelta(0), DAYS], ids=["clock behind", "one clock", "clock ahead"])
def test_a_comparison_follows_a_deletion_by_its_sequence(settings: Settings, off: timedelta) -> None:
    compare(settings, NOON + off)
    delete(settings)
    compare(settings, NOON - off)
    deletion = versions.find_deletion(settings, PIPELINE.name, OWN, BATCH)
    assert deletion is not None

    rows = Journal(settings, PIPELINE.name, ComparisonRow).read()
    assert [deletion.is_before(row) for row in rows] == [False, True]


def test_a_reverted_deletion_is_ignored(settings: Settings) -> None:
    delete(settings, number=7)
    versions.undo_deletion(settings, PIPELINE.name, OWN, 7, StandingClock(NOON))

    assert versions.find_deletion(settings, PIPELINE.name, OWN, 7) is None
    assert [registration.number for registration in versions.read_registrations(settings, PIPELINE.name)] == [0]
