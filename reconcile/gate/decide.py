"""Whether a pipeline may move: a pure function of its stage, the evidence and the policy."""

from datetime import datetime

from cutover.definition.model.pipeline import Policy
from cutover.lake.control.stages import Stage
from cutover.reconcile.gate import criteria, hazards
from cutover.reconcile.gate.evidence_rows import (
    EXPIRES_AFTER,
    consecutive,
    find_earliest_times,
    is_ahead,
    list_blocks,
    newest,
)
from cutover.reconcile.gate.gate_values import (
    Condition,
    ContractCheck,
    EvidenceRun,
    GateDecision,
    GateEvidence,
    LostWindows,
    Move,
    PresentState,
    Replayability,
    SeenHazard,
)

__all__ = [  # what `decide` is called with, and what it returns
    "EXPIRES_AFTER",
    "Condition",
    "ContractCheck",
    "EvidenceRun",
    "GateDecision",
    "GateEvidence",
    "LostWindows",
    "Move",
    "PresentState",
    "Replayability",
    "SeenHazard",
    "consecutive",
    "decide",
    "is_ahead",
    "list_blocks",
    "newest",
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
    """Return whether `move` is allowed from `stage`, and of each condition its number, threshold, and what it lacks.

    Back is always allowed: to LAMBDA, where batch serves again, or from KAPPA to SHADOW. Forward asks for consecutive
    sealed runs within policy, each with a newer cut, the newest of them fresh, for the hazards that the policy names,
    and for a log that is kept long enough to be replayed; to KAPPA also for windows that a daily sample can speak for.
    """
    if move == "rollback":
        return GateDecision(move=move, stage=stage, target=back_to if back_to in _BACK[stage] else None)
    counted = consecutive(evidence.runs, now, evidence.losses)
    earliest = find_earliest_times(evidence.runs, now)
    times = [at for run in counted if (at := earliest[run.run_id]) is not None]
    conditions = (
        criteria.check_runs(counted, evidence.runs, policy),
        criteria.check_last_run(evidence.runs),
        criteria.check_freshness(max(times, default=None), policy, now),
        criteria.check_unchanged(counted, evidence.settings_since, policy),
        criteria.check_divergence(evidence.runs, policy),
        *hazards.check_hazards(evidence.hazards, evidence.runs, policy, now),
        criteria.check_losses(evidence),
        criteria.check_tables(evidence),
        criteria.check_rules(evidence, counted, now),
        criteria.check_contract(evidence.contract, evidence.expectations),
        criteria.check_self_test(evidence.self_test, evidence.earlier_self_tests, now),
        *criteria.check_replay(evidence.replay, policy, now),
        *([criteria.check_audit(evidence.audit_refusal, policy)] if stage is Stage.SHADOW else []),
        *([] if evidence.present is None else criteria.check_present(evidence.present)),
    )
    return GateDecision(
        move=move,
        stage=stage,
        target=_NEXT.get(stage),
        conditions=conditions,
        counted=counted,
        expires=min(times) + EXPIRES_AFTER if times else None,
    )
