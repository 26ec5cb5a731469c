"""In KAPPA somebody must look: from when on nobody does."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from cutover.definition import Fixed, Pipeline
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Audit
from cutover.definition.windows.sessions import Sessions
from cutover.lake.control import control_tables, versions
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.reconcile.judgement.audits import audit_record, power
from cutover.reconcile.judgement.audits.audit_record import AuditState
from cutover.reconcile.watch.ages import find_audit_age
from cutover.reconcile.watch.alerts.catalogue import list_firing
from cutover.settings import Settings
from tests.support.history.audits import audited
from tests.support.suite.standing_clock import StandingClock
from tests.unit.watch.facts_of import MICROS, NOW, PIPELINE, facts, record

DAY = 86_400_000_000


WITHOUT, USUAL = ({"audit": power.describe(asked)} for asked in (None, Audit()))
"""What the history keeps of what the samples were to find, when a move was decided."""


def move(
    settings: Settings,
    stage: str,
    *,
    days_ago: float,
    pipeline: Pipeline = PIPELINE,
    evidence: Mapping[str, object] | None = None,
) -> None:
    """Append a move to the gate's history; before the first the version of the stream is made."""
    number = versions.open_or_create(settings, pipeline, StandingClock(NOW - timedelta(days=99))).number
    row = {"pipeline": PIPELINE.name, "at": NOW - timedelta(days=days_ago), "event": "advanced", "stage": stage}
    row |= {"result_fingerprint": result_fingerprint(pipeline), "stream_version": number, "who": "me", "why": "so"}
    row |= {"evidence": json.dumps(evidence or {})}
    control_tables.append(settings, "gate", [row])


def audit(  # noqa: PLR0913 -- each is one way in which an audit may not count
    settings: Settings,
    state: AuditState,
    *,
    days_ago: float,
    version: int = 0,
    until: int = 1,
    pipeline: Pipeline = PIPELINE,
    asked: Audit | None = None,
) -> None:
    """Record an audit of windows that end by a time."""
    at = (NOW - timedelta(days=days_ago)).isoformat()
    found = audited(
        PIPELINE.name, at=at, state=state, audit=asked or Audit(), until=until, windows=(0,), stream_version=version
    )
    audit_record.record(settings, pipeline, found)


def fires(settings: Settings, newest: EpochRecord | None = None, pipeline: Pipeline = PIPELINE) -> bool:
    """Return whether the alert fires beside the others of a stream that does well."""
    found = find_audit_age(settings, pipeline, [newest or record()], StandingClock(NOW))
    return "AuditNotFresh" in {one.name for one in list_firing(facts(audit_freshness=found))}


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


def test_a_version_that_serves_since_a_minute_has_time(settings: Settings) -> None:
    move(settings, "KAPPA", days_ago=94)
    turn = versions.next_turn(settings, PIPELINE)
    made = versions.register(settings, PIPELINE, StandingClock(NOW - timedelta(days=9)), turn=turn, beside=True)
    versions.serve(settings, PIPELINE, made.number, why="swap", clock=StandingClock(NOW - timedelta(minutes=1)))

    assert not fires(settings)


@pytest.mark.parametrize(("window_days", "closed_ago", "expected"), [(7, 0.5, False), (7, 2.5, True), (1, 2.5, True)])
def test_a_window_has_the_time_of_two_audits_from_when_it_became_final(
    settings: Settings, window_days: int, closed_ago: float, *, expected: bool
) -> None:
    pipeline = replace(PIPELINE, window=Fixed(days=window_days))
    last_end = MICROS // (window_days * DAY) * window_days * DAY
    move(settings, "KAPPA", days_ago=60, pipeline=pipeline)
    audit(settings, AuditState.AGREES, days_ago=6, until=last_end - window_days * DAY, pipeline=pipeline)

    assert fires(settings, record(watermark_after=last_end + round(closed_ago * DAY)), pipeline) is expected


def test_where_nothing_became_final_nothing_is_missed(settings: Settings) -> None:
    move(settings, "KAPPA", days_ago=60)
    audit(settings, AuditState.AGREES, days_ago=3, until=MICROS)

    assert not fires(settings, record(age=3 * 86_400))


def test_on_a_quiet_topic_a_final_window_waits_for_its_audit(settings: Settings) -> None:
    move(settings, "KAPPA", days_ago=60)
    audit(settings, AuditState.AGREES, days_ago=3, until=MICROS - DAY)

    assert fires(settings, record(age=3 * 86_400))


def test_of_sessions_no_sample_can_be_drawn(settings: Settings) -> None:
    pipeline = replace(PIPELINE, window=Sessions(gap="10 minutes"))
    move(settings, "KAPPA", days_ago=60, pipeline=pipeline)

    assert not fires(settings, pipeline=pipeline)


@pytest.mark.parametrize(("approved", "expected"), [(WITHOUT, False), ({}, True)])
def test_a_policy_without_an_audit_is_an_excuse_where_it_was_approved(
    settings: Settings, approved: Mapping[str, object], *, expected: bool
) -> None:
    pipeline = replace(PIPELINE, policy=replace(PIPELINE.policy, audit=None))
    move(settings, "KAPPA", days_ago=60, pipeline=pipeline, evidence=approved)

    assert fires(settings, pipeline=pipeline) is expected


def test_an_audit_that_was_asked_for_less_than_was_approved_is_none(settings: Settings) -> None:
    pipeline = replace(PIPELINE, policy=replace(PIPELINE.policy, audit=Audit(share=1.0)))
    move(settings, "KAPPA", days_ago=60, pipeline=pipeline, evidence=USUAL)
    audit(settings, AuditState.AGREES, days_ago=0.1, pipeline=pipeline, asked=Audit(share=1.0))
    assert fires(settings, pipeline=pipeline)

    audit(settings, AuditState.AGREES, days_ago=0.1, pipeline=pipeline)
    assert not fires(settings, pipeline=pipeline)
