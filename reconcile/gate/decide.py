"""Decision on a move: a pure function of the stage, the evidence and the policy."""

from datetime import datetime

from cutover.definition.model.policy import Policy, Stage
from cutover.reconcile.gate import criteria
from cutover.reconcile.gate.gate_values import (
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
from cutover.reconcile.gate.hazard_conditions import evaluate_hazards

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
