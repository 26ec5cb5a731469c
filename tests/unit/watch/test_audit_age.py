"""Age of the latest audit in KAPPA, where audits are required."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from cutover.definition import Fixed, Pipeline
from cutover.definition.model.policy import Audit
from cutover.definition.windows.kinds import Sessions
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.verdict import history, statistics
from cutover.reconcile.verdict.history import AuditState
from cutover.reconcile.watch.ages import find_audit_age
from cutover.reconcile.watch.alerts.catalogue import list_firing
from cutover.settings import Settings
from tests.support.history.audits import make_audit
from tests.support.history.journal_rows import record_stage
from tests.support.history.watch_facts import MICROS, NOW, PIPELINE, make_epoch, make_facts
from tests.support.suite.standing_clock import StandingClock

DAY = 86_400_000_000


WITHOUT, USUAL = ({"audit": statistics.describe_requirement(audit)} for audit in (None, Audit()))
"""Evidence of a move: the audit that was approved with it."""


def move(
    settings: Settings,
    stage: str,
    *,
    days_ago: float,
    pipeline: Pipeline = PIPELINE,
    evidence: Mapping[str, object] | None = None,
) -> None:
    """Append a move to the gate's history; before the first one, create the version of the stream."""
    lake = PipelineLake(settings, pipeline)
    number = versions.open_or_create(lake, StandingClock(NOW - timedelta(days=99))).number
    values = {"at": NOW - timedelta(days=days_ago), "stream_version": number, "evidence": json.dumps(evidence or {})}
    record_stage(lake, stage, **values)


def audit(  # noqa: PLR0913 -- each is one way in which an audit may not count
    settings: Settings,
    state: AuditState,
    *,
    days_ago: float,
    version: int = 0,
    covered_until: int = 1,
    pipeline: Pipeline = PIPELINE,
    required: Audit | None = None,
) -> None:
    """Record an audit of windows that end by a time."""
    at = (NOW - timedelta(days=days_ago)).isoformat()
    window_audit = make_audit(
        PIPELINE.name,
        at=at,
        state=state,
        audit=required or Audit(),
        until=covered_until,
        windows=(0,),
        stream_version=version,
    )
    history.record_audit(PipelineLake(settings, pipeline), window_audit)


def fires(settings: Settings, newest: EpochRecord | None = None, pipeline: Pipeline = PIPELINE) -> bool:
    """Return whether the alert fires in an otherwise healthy stream."""
    freshness = find_audit_age(PipelineLake(settings, pipeline), [newest or make_epoch()], StandingClock(NOW))
    return "AuditNotFresh" in {alert.name for alert in list_firing(make_facts(audit_freshness=freshness))}


def test_no_audit_since_the_move_fires(settings: Settings) -> None:
    move(settings, "KAPPA", days_ago=2.01)

    assert fires(settings)


@pytest.mark.parametrize("stage", ["LAMBDA", "SHADOW"])
def test_no_audit_is_required_while_batch_runs(settings: Settings, stage: str) -> None:
    move(settings, "KAPPA", days_ago=8)
    move(settings, stage, days_ago=7)

    assert not fires(settings)


def test_move_of_yesterday_is_no_missing_audit(settings: Settings) -> None:
    move(settings, "KAPPA", days_ago=1.99)

    assert not fires(settings)


@pytest.mark.parametrize("state", [AuditState.AGREES, AuditState.REGRESSION])
def test_conclusive_audit_clears_the_alert(settings: Settings, state: AuditState) -> None:
    move(settings, "KAPPA", days_ago=8)
    audit(settings, state, days_ago=1.99)

    assert not fires(settings)


def test_inconclusive_audit_does_not_count(settings: Settings) -> None:
    move(settings, "KAPPA", days_ago=8)
    audit(settings, AuditState.AGREES, days_ago=3)
    audit(settings, AuditState.NOT_COMPARABLE, days_ago=0.1)

    assert fires(settings)


def test_audit_of_another_version_does_not_count(settings: Settings) -> None:
    move(settings, "KAPPA", days_ago=8)
    audit(settings, AuditState.AGREES, days_ago=0.1, version=7)

    assert fires(settings)


def test_version_that_began_to_serve_now_is_no_missing_audit(settings: Settings) -> None:
    move(settings, "KAPPA", days_ago=94)
    lake = PipelineLake(settings, PIPELINE)
    sequence = versions.read_next_version_sequence(lake)
    version = versions.register(lake, StandingClock(NOW - timedelta(days=9)), expected_sequence=sequence, parallel=True)
    versions.promote_version(lake, version.number, why="swap", clock=StandingClock(NOW - timedelta(minutes=1)))

    assert not fires(settings)


@pytest.mark.parametrize(("window_days", "closed_ago", "expected"), [(7, 0.5, False), (7, 2.5, True), (1, 2.5, True)])
def test_a_window_has_the_time_of_two_audits_from_when_it_became_final(
    settings: Settings, window_days: int, closed_ago: float, *, expected: bool
) -> None:
    pipeline = replace(PIPELINE, window=Fixed(days=window_days))
    last_end = MICROS // (window_days * DAY) * window_days * DAY
    move(settings, "KAPPA", days_ago=60, pipeline=pipeline)
    audit(settings, AuditState.AGREES, days_ago=6, covered_until=last_end - window_days * DAY, pipeline=pipeline)

    assert fires(settings, make_epoch(watermark_after=last_end + round(closed_ago * DAY)), pipeline) is expected


def test_no_audit_is_required_without_a_final_window(settings: Settings) -> None:
    move(settings, "KAPPA", days_ago=60)
    audit(settings, AuditState.AGREES, days_ago=3, covered_until=MICROS)

    assert not fires(settings, make_epoch(age=3 * 86_400))


def test_final_window_of_a_quiet_topic_needs_its_audit(settings: Settings) -> None:
    move(settings, "KAPPA", days_ago=60)
    audit(settings, AuditState.AGREES, days_ago=3, covered_until=MICROS - DAY)

    assert fires(settings, make_epoch(age=3 * 86_400))


def test_no_audit_is_required_for_sessions(settings: Settings) -> None:
    pipeline = replace(PIPELINE, window=Sessions(gap="10 minutes"))
    move(settings, "KAPPA", days_ago=60, pipeline=pipeline)

    assert not fires(settings, pipeline=pipeline)


@pytest.mark.parametrize(("approved", "expected"), [(WITHOUT, False), ({}, True)])
def test_policy_without_an_audit_counts_only_if_approved(
    settings: Settings, approved: Mapping[str, object], *, expected: bool
) -> None:
    pipeline = replace(PIPELINE, policy=replace(PIPELINE.policy, audit=None))
    move(settings, "KAPPA", days_ago=60, pipeline=pipeline, evidence=approved)

    assert fires(settings, pipeline=pipeline) is expected


def test_audit_weaker_than_approved_does_not_count(settings: Settings) -> None:
    pipeline = replace(PIPELINE, policy=replace(PIPELINE.policy, audit=Audit(share=1.0)))
    move(settings, "KAPPA", days_ago=60, pipeline=pipeline, evidence=USUAL)
    audit(settings, AuditState.AGREES, days_ago=0.1, pipeline=pipeline, required=Audit(share=1.0))
    assert fires(settings, pipeline=pipeline)

    audit(settings, AuditState.AGREES, days_ago=0.1, pipeline=pipeline)
    assert not fires(settings, pipeline=pipeline)
