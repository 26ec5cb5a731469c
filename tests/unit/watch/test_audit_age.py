"""In KAPPA somebody must look: from when on nobody does."""

from datetime import UTC, datetime, timedelta

import pytest

from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Audit
from cutover.lake.control import control_tables, versions
from cutover.reconcile.judgement.audits import audit_record
from cutover.reconcile.judgement.audits.audit_record import AuditState, WindowAudit
from cutover.reconcile.watch.alerts.rules import alerts
from cutover.reconcile.watch.gather import Gathering
from cutover.settings import Settings
from tests.support.standing_clock import StandingClock
from tests.unit.watch.facts_of import PIPELINE

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def move(settings: Settings, stage: str, *, days_ago: float) -> None:
    """Append a move to the gate's history; before the first the version of the stream is made."""
    number = versions.open_or_create(settings, PIPELINE, StandingClock(NOW - timedelta(days=9))).number
    row = {"pipeline": PIPELINE.name, "at": NOW - timedelta(days=days_ago), "event": "advanced", "stage": stage}
    row |= {"result_fingerprint": result_fingerprint(PIPELINE), "stream_version": number, "who": "me", "why": "so"}
    control_tables.append(settings, "gate", [row])


def audit(settings: Settings, state: AuditState, *, days_ago: float, version: int = 0) -> None:
    """Record an audit."""
    found = WindowAudit(
        pipeline=PIPELINE.name,
        at=(NOW - timedelta(days=days_ago)).isoformat(),
        state=state,
        reason="x",
        audit=Audit(),
        seed=1,
        since=0,
        until=1,
        population=1,
        wanted=1,
        windows=(0,),
        judged=1,
        rows=1,
        missed=0.5,
        power=0.5,
        stream_version=version,
    )
    audit_record.record(settings, PIPELINE, found)


def fires(settings: Settings) -> bool:
    facts = Gathering(settings, PIPELINE, StandingClock(NOW)).facts()
    return "AuditNotFresh" in {one.name for one in alerts(facts)}


def test_nobody_audits_since_the_move(settings: Settings) -> None:
    move(settings, "KAPPA", days_ago=2.01)

    assert fires(settings)


@pytest.mark.parametrize("stage", ["LAMBDA", "SHADOW"])
def test_where_batch_runs_no_audit_is_missed(settings: Settings, stage: str) -> None:
    move(settings, "KAPPA", days_ago=8)
    move(settings, stage, days_ago=7)

    assert not fires(settings)


def test_a_move_of_yesterday_has_time(settings: Settings) -> None:
    move(settings, "KAPPA", days_ago=1.99)

    assert not fires(settings)


@pytest.mark.parametrize("state", [AuditState.AGREES, AuditState.REGRESSION])
def test_an_audit_that_says_something_is_one(settings: Settings, state: AuditState) -> None:
    move(settings, "KAPPA", days_ago=8)
    audit(settings, state, days_ago=1.99)

    assert not fires(settings)


def test_an_audit_that_says_nothing_is_none(settings: Settings) -> None:
    move(settings, "KAPPA", days_ago=8)
    audit(settings, AuditState.AGREES, days_ago=3)
    audit(settings, AuditState.NOT_COMPARABLE, days_ago=0.1)

    assert fires(settings)


def test_an_audit_of_another_version_is_none_of_what_serves(settings: Settings) -> None:
    move(settings, "KAPPA", days_ago=8)
    audit(settings, AuditState.AGREES, days_ago=0.1, version=7)

    assert fires(settings)
