"""Gate evidence for tests: runs, a loss and the present state."""

from datetime import UTC, datetime, timedelta
from typing import Any

from cutover.definition.model.policy import Policy
from cutover.reconcile.gate.decide import (
    EvidenceRun,
    LostWindows,
    PresentState,
    Replayability,
)
from tests.support.history.self_tests import make_passed

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
POLICY = Policy(runs=3)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
ROOMY = Replayability(retention=None, replay_time=HOUR)
TESTED = make_passed(NOW - HOUR)


def make_run(epoch: int, *, age: timedelta = HOUR, **changes: Any) -> EvidenceRun:
    fields: dict[str, Any] = {
        "outcome": "EXPLAINED",
        "is_within_policy": True,
        "windows": 9,
        "newest_window": epoch,
    } | changes
    return EvidenceRun(run_id=f"r{epoch}", at=NOW - age, epoch=epoch, **fields)


LOSS = LostWindows(epoch=2, closed_at=500, text="20 offsets of flights were lost")


def make_present_state(**changes: Any) -> PresentState:
    fields: dict[str, Any] = {"run": make_run(3), "reason": "Agree."} | changes
    return PresentState(**fields)
