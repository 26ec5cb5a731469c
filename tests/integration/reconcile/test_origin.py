"""A log that does not answer: what its driver said last counts, until somebody has accepted it."""

import json
import os
from dataclasses import replace
from datetime import UTC, datetime

import psutil
import pytest

from cutover.settings import Settings
from reconcile.result import Verdict
from reconcile.run import reconcile
from tests.integration.reconcile.lake_of import PIPELINE, lake_of, write
from tests.integration.reconcile.test_lost import LOSS, record
from tests.integration.reconcile.test_run import CLEAN

AT = datetime(2026, 1, 3, tzinfo=UTC)
SAID = "Topic sales, partition 0: expected at offset 64 the record that epoch 3 read, got no record"


def ended(settings: Settings, **changes: object) -> None:
    """Leave the last heartbeat of a driver that failed."""
    folder = settings.run_dir / PIPELINE.name
    folder.mkdir(parents=True)
    beat = {
        "pid": os.getpid(),
        "started": psutil.Process().create_time(),
        "run_id": "r",
        "at": AT.isoformat(),
        "state": "FAILED",
        "error": SAID,
        "runbook": "LogDataLost",
    }
    (folder / "heartbeat.json").write_text(json.dumps(beat | changes), encoding="utf-8")


@pytest.mark.parametrize("runbook", ["LogDataLost", "TopicIdentityChanged"])
def test_stream_that_stands_for_its_log_is_not_comparable(settings: Settings, runbook: str) -> None:
    write(settings, lake_of(CLEAN))
    ended(settings, runbook=runbook)

    result = reconcile(settings, PIPELINE)

    assert (result.verdict, result.exit_code, result.runbook) == (Verdict.NOT_COMPARABLE, 2, runbook)
    assert SAID in result.sentence


@pytest.mark.parametrize("changes", [{"runbook": "StreamNotRunning"}, {"state": "RUNNING", "runbook": None}])
def test_stream_that_does_not_stand_for_its_log_is_compared_with_a_note(
    settings: Settings, changes: dict[str, object]
) -> None:
    write(settings, lake_of(CLEAN))
    ended(settings, **changes)

    result = reconcile(settings, PIPELINE)

    assert result.verdict is Verdict.CONSISTENT
    assert any("could not be asked whether it still is what both sides read" in note for note in result.notes)


def test_loss_that_was_accepted_since_lets_the_stream_go_on(settings: Settings) -> None:
    write(settings, lake_of(CLEAN))
    ended(settings)
    record(settings, replace(LOSS, at=AT.replace(day=4)))

    assert reconcile(settings, PIPELINE).verdict is Verdict.CONSISTENT
