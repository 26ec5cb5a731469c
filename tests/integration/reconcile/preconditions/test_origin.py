"""A log that does not answer: its driver's last message counts until it is accepted; without one, nothing does."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from cutover.errors import LogError
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.run import run_reconciliation
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import PIPELINE, lake_of, leave_word, write
from tests.integration.reconcile.preconditions.test_lost import LOSS, record
from tests.integration.reconcile.test_run import CLEAN

AT = datetime(2026, 1, 3, tzinfo=UTC)
SAID = "Topic sales, partition 0: expected at offset 64 the record that epoch 3 read, got no record"


def leave_failed_heartbeat(settings: Settings, **changes: object) -> None:
    """Leave the last heartbeat of a driver that failed."""
    failed = {"at": AT.isoformat(), "state": "FAILED", "error": SAID, "runbook": "LogDataLost"}
    leave_word(PipelineLake(settings, PIPELINE), **(failed | changes))


@pytest.mark.parametrize("runbook", ["LogDataLost", "TopicIdentityChanged"])
def test_stream_that_stands_for_its_log_is_not_comparable(settings: Settings, runbook: str) -> None:
    write(settings, lake_of(CLEAN))
    leave_failed_heartbeat(
        settings, runbook=runbook, error=str(LogError(f"{SAID}.\nHint: accept it.", runbook=runbook))
    )

    result = run_reconciliation(PipelineLake(settings, PIPELINE))

    assert (result.finding.verdict, result.finding.exit_code, result.finding.runbook) == (
        Verdict.NOT_COMPARABLE,
        2,
        runbook,
    )
    assert SAID in result.finding.sentence
    assert "Runbook" not in result.finding.sentence


@pytest.mark.parametrize("changes", [{"runbook": "StreamNotRunning"}, {"state": "RUNNING", "runbook": None}])
def test_stream_that_does_not_stand_for_its_log_is_compared_with_a_note(
    settings: Settings, changes: dict[str, object]
) -> None:
    write(settings, lake_of(CLEAN))
    leave_failed_heartbeat(settings, **changes)

    result = run_reconciliation(PipelineLake(settings, PIPELINE))

    assert result.finding.verdict is Verdict.CONSISTENT
    assert any("could not confirm that it is the log that both sides read" in note for note in result.finding.notes)


@pytest.mark.parametrize("day", [1, 4], ids=["clock behind", "one clock"])
def test_loss_that_was_accepted_since_lets_the_stream_go_on(settings: Settings, day: int) -> None:
    write(settings, lake_of(CLEAN))
    leave_failed_heartbeat(settings, losses_seen=0)
    record(settings, replace(LOSS, at=AT.replace(day=day)))

    assert run_reconciliation(PipelineLake(settings, PIPELINE)).finding.verdict is Verdict.CONSISTENT


@pytest.mark.parametrize("losses_seen", [1, None], ids=["it knew of it", "a driver that did not note what it knew"])
def test_loss_that_was_accepted_before_the_driver_failed_again_does_not(
    settings: Settings, losses_seen: int | None
) -> None:
    write(settings, lake_of(CLEAN))
    record(settings, replace(LOSS, at=AT.replace(day=9)))
    leave_failed_heartbeat(settings, losses_seen=losses_seen)

    assert run_reconciliation(PipelineLake(settings, PIPELINE)).finding.verdict is Verdict.NOT_COMPARABLE


@pytest.mark.quick
@pytest.mark.parametrize(
    ("word", "part"),
    [
        ({"at": None}, "No driver has written a heartbeat"),
        ({"state": "RUNNING", "started": 1.0}, "The driver died without an error"),
        ({"state": "RUNNING", "silent_since": AT.isoformat()}, "The driver got no answer"),
        ({"state": "STOPPED", "silent_since": AT.isoformat()}, "The driver got no answer"),
        ({"state": "FAILED", "runbook": "KafkaUnreachable"}, "The driver got no answer"),
        ({"state": "FAILED", "runbook": "KafkaRefused"}, "The driver got no answer"),
    ],
)
def test_where_neither_the_log_nor_a_driver_tells_nothing_is_judged(
    settings: Settings, word: dict[str, object], part: str
) -> None:
    write(settings, lake_of(CLEAN))
    lake = PipelineLake(settings, PIPELINE)
    leave_word(lake, **word)

    result = run_reconciliation(lake)

    (breach,) = result.finding.seal.breaches
    assert (result.finding.verdict, result.finding.exit_code, breach.code) == (Verdict.NOT_COMPARABLE, 2, "log_silent")
    assert part in breach.message
    assert "`cutover reconcile sales`" in breach.message


def test_where_no_driver_ever_ran_nothing_is_judged(settings: Settings) -> None:
    write(settings, lake_of(CLEAN))
    (settings.run_dir / PIPELINE.name / "heartbeat.json").unlink()

    assert run_reconciliation(PipelineLake(settings, PIPELINE)).finding.verdict is Verdict.NOT_COMPARABLE


def test_the_word_of_another_versions_driver_does_not_count(settings: Settings) -> None:
    write(settings, lake_of(CLEAN))
    settings_of_version = settings.model_copy(update={"stream_version": 0})

    lake = PipelineLake(settings_of_version, PIPELINE)
    report_before = run_reconciliation(lake)
    leave_word(lake)

    assert (report_before.finding.verdict, run_reconciliation(lake).finding.verdict) == (
        Verdict.NOT_COMPARABLE,
        Verdict.CONSISTENT,
    )
