"""Decision on a move: a pure function of the stage, the evidence and the policy.

The conditions on hazards are here too: what a stream must have survived before a move, and with which result.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from cutover.definition.model.policy import HazardKind, Policy, Stage
from cutover.reconcile.gate import criteria
from cutover.reconcile.gate.criteria import describe_next_run
from cutover.reconcile.gate.gate_values import (
    AT_LEAST,
    EXPIRES_AFTER,
    Condition,
    ContractCheck,
    EvidenceRun,
    GateDecision,
    GateEvidence,
    LostWindows,
    Move,
    PresentState,
    RecordedHazard,
    Replayability,
    find_earliest_run_times,
    find_latest_run,
    is_newer_cut,
    list_blocks,
    select_consecutive_runs,
)
from cutover.reconcile.result.text import count_noun, duration
from cutover.recorded_times import find_earliest_times
from cutover.timestamps import parse_duration

LATE_AT_LEAST = 10
"""Minimum number of late records in a burst, regardless of their share of the epoch."""


PEAK = 2.0
"""Ratio to the median hour from which an hour is a peak."""


HOURS_AT_LEAST = 24
"""Minimum number of hours with records for a peak."""


_REMEDIES: Mapping[HazardKind, str] = {
    "restart": "`cutover stream P --stop`, `cutover stream P --detach`",
    "late_burst": f"an epoch with {LATE_AT_LEAST} late records and more than the policy's late share",
    "peak": f"an hour with {PEAK:g} times the records of the median hour, of {HOURS_AT_LEAST} hours at least",
    "schema_change": "records with a field that the schema does not name, after some without it",
    "partitions": "more partitions (`kafka-topics --alter`), or another leader of one",
    "replay": '`cutover replay P --into N`, and `cutover serve P --version N --why "..."` once it agrees',
}


def evaluate_hazards(
    hazards: tuple[RecordedHazard, ...], runs: tuple[EvidenceRun, ...], policy: Policy, now: datetime
) -> tuple[Condition, ...]:
    """Evaluate each hazard that the policy requires; without any, return one condition that lists the recorded ones."""
    by_kind = {hazard.kind: hazard for hazard in hazards}
    if not policy.hazards:
        text = f"the policy requires none; recorded: {', '.join(by_kind) or 'none'}"
        return (Condition(name="hazards", is_met=True, detail=text, number=0, threshold=0),)
    period = timedelta(microseconds=parse_duration(policy.hazards_within, of="policy.hazards_within"))
    return tuple(_evaluate_hazard(kind, by_kind.get(kind), runs, period, now) for kind in dict.fromkeys(policy.hazards))


def _evaluate_hazard(
    kind: HazardKind, hazard: RecordedHazard | None, runs: tuple[EvidenceRun, ...], period: timedelta, now: datetime
) -> Condition:
    """Require an occurrence within a period, and a run within policy at its cut or a newer one."""
    at = None if hazard is None else find_earliest_times([hazard.at], now)[0]
    is_recent = at is not None and now - at <= period
    agreeing = [
        run
        for run in runs
        if hazard is not None and run.is_within_policy and run.covers_all_windows and run.epoch >= hazard.epoch
    ]
    is_met = is_recent and bool(agreeing)
    requirement = f"required within {duration(period.total_seconds())}"
    remedy = _REMEDIES[kind]
    if hazard is None:
        detail = f"never recorded of this version; {requirement}"
    else:
        recorded_at = "at an unknown time" if hazard.at is None else f"{hazard.at:%Y-%m-%d %H:%M} UTC"
        detail = f"{recorded_at}: {hazard.text}; {requirement}"
        if is_recent:
            detail += f"; {count_noun(len(agreeing), 'run')} at its cut or a newer one within policy"
            remedy = f"a run within policy at a newer cut: {describe_next_run(find_latest_run(runs))}"
    return Condition(
        name=f"hazard {kind}",
        is_met=is_met,
        detail=detail,
        number=len(agreeing) if is_recent else 0,
        threshold=1,
        sense=AT_LEAST,
        unit="runs behind it",
        to_pass="" if is_met else remedy,
    )


__all__ = [  # arguments and results of `decide`
    "EXPIRES_AFTER",
    "Condition",
    "ContractCheck",
    "EvidenceRun",
    "GateDecision",
    "GateEvidence",
    "LostWindows",
    "Move",
    "PresentState",
    "RecordedHazard",
    "Replayability",
    "decide",
    "find_latest_run",
    "is_newer_cut",
    "list_blocks",
    "select_consecutive_runs",
]

_NEXT = {Stage.LAMBDA: Stage.SHADOW, Stage.SHADOW: Stage.KAPPA}
_BACK = {Stage.KAPPA: (Stage.LAMBDA, Stage.SHADOW), Stage.SHADOW: (Stage.LAMBDA,), Stage.LAMBDA: ()}


def decide(
    stage: Stage,
    evidence: GateEvidence,
    move: Move,
    policy: Policy,
    now: datetime,
    *,
    back_to: Stage = Stage.LAMBDA,
) -> GateDecision:
    """Decide whether `move` is allowed from `stage`, with number, threshold and remedy of each condition.

    A rollback is always allowed: to LAMBDA, where batch serves again, or from KAPPA to SHADOW. An advance requires
    consecutive sealed runs within policy, each at a newer cut, of which the latest is recent; the hazards that the
    policy names; and retention that covers replays. An advance to KAPPA also requires windows that samples can audit.
    """
    if move == "rollback":
        return GateDecision(move=move, stage=stage, target=back_to if back_to in _BACK[stage] else None)
    eligible_runs = select_consecutive_runs(evidence.runs, now, evidence.losses)
    earliest = find_earliest_run_times(evidence.runs, now)
    times = [at for run in eligible_runs if (at := earliest[run.run_id]) is not None]
    conditions = (
        criteria.evaluate_runs(eligible_runs, evidence.runs, policy),
        criteria.evaluate_latest_run(evidence.runs),
        criteria.evaluate_freshness(max(times, default=None), evidence.runs, policy, now),
        criteria.evaluate_settings(eligible_runs, evidence.runs, evidence.settings_since, policy),
        criteria.evaluate_divergence(evidence.runs, policy),
        *evaluate_hazards(evidence.hazards, evidence.runs, policy, now),
        criteria.evaluate_losses(evidence),
        criteria.evaluate_tables(evidence),
        criteria.evaluate_acceptance_rules(evidence, eligible_runs, now),
        criteria.evaluate_contract(evidence.contract, evidence.expectations),
        criteria.evaluate_self_test(evidence.self_test, evidence.earlier_self_tests, now),
        *criteria.evaluate_replay(evidence.replay, policy, now),
        *([criteria.evaluate_audit(evidence.audit_refusal, policy)] if stage is Stage.SHADOW else []),
        *([] if evidence.present is None else criteria.evaluate_present(evidence.present)),
    )
    return GateDecision(
        move=move,
        stage=stage,
        target=_NEXT.get(stage),
        conditions=conditions,
        eligible_runs=eligible_runs,
        expires=min(times) + EXPIRES_AFTER if times else None,
    )
