"""Approval of one move by a person, on the evidence that the person saw.

A proposal names the stage, the version, the definition, the audit policy and the eligible runs. An approved move is
rejected once any of these has changed: another move was made, this one was withdrawn, the definition, the version or
the audit policy changed, or one of the latest runs on which it is based is no longer eligible, because it expired or a
later run contradicted it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cutover import changes
from cutover.changes import Approval
from cutover.clock import Clock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.policy import Stage
from cutover.lake.control.served import current_stage, list_moves, read_gate_events
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.gate import evidence as evidence_of
from cutover.reconcile.gate.decide import GateDecision, GateEvidence, decide
from cutover.reconcile.verdict.audits import power
from cutover.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class StageProposal(changes.Proposal):
    """Move that the recorded evidence allows, as presented to a person."""

    pipeline: str
    stage: str
    target: str
    turn: int  # number of rows in the gate's history at the time of the proposal
    result_fingerprint: str
    stream_version: int | None
    runs: tuple[str, ...]  # ids of the latest eligible ones, as many as the policy requires, oldest first
    audit: str = ""  # what the policy requires of samples in KAPPA, in words; "" for a move to another stage


StageApproval = Approval[StageProposal]
"""Approval of a move by a person."""


def make_stage_proposal(lake: PipelineLake, clock: Clock) -> tuple[GateDecision, StageProposal | None]:
    """Decide on an advance to the next stage and, if it is allowed, make the proposal for a person to approve.

    Raises:
        LakeError: A table of the lake cannot be read.
    """
    pipeline = lake.pipeline
    turn = len(read_gate_events(lake.settings, pipeline.name))
    stage, now = current_stage(lake), clock.now()
    evidence = evidence_of.read_evidence(lake, now)
    decision = decide(stage, evidence, "advance", pipeline.policy, now).name_pipeline(pipeline.name)
    if not decision.allowed:
        return decision, None
    return decision, StageProposal(
        pipeline=pipeline.name,
        stage=str(stage),
        target=str(decision.target),
        turn=turn,
        result_fingerprint=result_fingerprint(pipeline),
        stream_version=evidence.stream_version,
        runs=tuple(run.run_id for run in decision.eligible_runs[-pipeline.policy.runs :]),
        audit=_describe_audit(pipeline, decision),
    )


def check_stage_approval(
    approval: StageApproval, pipeline: Pipeline, evidence: GateEvidence, decision: GateDecision, *, turn: int
) -> None:
    """Check that a person approved the move, and that it and its evidence have not changed.

    Raises:
        ApprovalRejectedError: Names the change; nothing was written.
    """
    subject = f"Approval for `{pipeline.name}`"
    approval.check_person(subject)
    current_facts = {
        "pipeline": pipeline.name,
        "turn": turn,
        "stage": str(decision.stage),
        "target": str(decision.target),
        "result_fingerprint": result_fingerprint(pipeline),
        "audit": _describe_audit(pipeline, decision),
        "stream_version": evidence.stream_version,
    }
    changes.check_approval_unchanged(
        subject, _list_changes(approval.proposal, current_facts, decision), dag=f"{pipeline.name}_cutover"
    )


_NAMES = {
    "turn": "moves and withdrawals",
    "result_fingerprint": "definition",
    "audit": "`policy.audit`",
    "stream_version": "version of the stream",
}
"""Names of a proposal's fields in a message, where they differ."""


def _list_changes(
    approved: StageProposal, current_facts: Mapping[str, object], decision: GateDecision
) -> Iterator[str]:
    for name, current_value in current_facts.items():
        approved_value = getattr(approved, name)
        if approved_value != current_value:
            yield f"{_NAMES.get(name, name)}: {approved_value} was approved, it is {current_value}"
    eligible = {run.run_id for run in decision.eligible_runs}
    ineligible = [run_id for run_id in approved.runs if run_id not in eligible]
    if ineligible:
        more = "" if len(ineligible) == 1 else f" and {len(ineligible) - 1} more"
        yield f"run {ineligible[0]}{more} was approved and is no longer eligible"


def _describe_audit(pipeline: Pipeline, decision: GateDecision) -> str:
    return power.describe_requirement(pipeline.policy.audit) if decision.target is Stage.KAPPA else ""


def is_applied(settings: Settings, proposal: StageProposal) -> bool:
    """Return whether the latest move of the gate is the proposed one, as when a task is retried."""
    rows = list_moves(settings, proposal.pipeline)
    if not rows:
        return False
    return bool(json.loads(rows[-1].evidence).get("approved") == proposal.digest)
