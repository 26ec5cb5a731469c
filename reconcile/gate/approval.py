"""Approval of one move by a person, on the evidence that the person saw.

A proposal names the stage, the version, the definition, the audit policy and the eligible runs. An approved move is
rejected once any of these has changed: another move was made, this one was withdrawn, the definition, the version or
the audit policy changed, or one of the latest runs on which it is based is no longer eligible, because it expired or a
later run contradicted it.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cutover.clock import Clock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import LakeError
from cutover.lake.control.stages import Stage, current_stage, list_moves, read_events
from cutover.reconcile.gate import evidence as evidence_of
from cutover.reconcile.gate.decide import GateDecision, GateEvidence, decide
from cutover.reconcile.verdict.audits import power
from cutover.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Move that the recorded evidence allows, as presented to a person."""

    pipeline: str
    stage: str
    target: str
    turn: int  # number of rows in the gate's history at the time of the proposal
    result_fingerprint: str
    stream_version: int | None
    runs: tuple[str, ...]  # ids of the latest eligible ones, as many as the policy requires, oldest first
    audit: str = ""  # what the policy requires of samples in KAPPA, in words; "" for a move to another stage

    @property
    def digest(self) -> str:
        """Compute the identity to which an approval is bound: sha256 of all fields, as canonical JSON."""
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """Approval of a proposal by a person."""

    proposal: Proposal
    who: str


def make_proposal(settings: Settings, pipeline: Pipeline, clock: Clock) -> tuple[GateDecision, Proposal | None]:
    """Decide on an advance to the next stage and, if it is allowed, make the proposal for a person to approve.

    Raises:
        LakeError: A table of the lake cannot be read.
    """
    turn = len(read_events(settings, pipeline.name))
    stage, now = current_stage(settings, pipeline), clock.now()
    evidence = evidence_of.read(settings, pipeline, now)
    decision = decide(stage, evidence, "advance", pipeline.policy, now).name_pipeline(pipeline.name)
    if not decision.allowed:
        return decision, None
    return decision, Proposal(
        pipeline=pipeline.name,
        stage=str(stage),
        target=str(decision.target),
        turn=turn,
        result_fingerprint=result_fingerprint(pipeline),
        stream_version=evidence.stream_version,
        runs=tuple(run.run_id for run in decision.eligible_runs[-pipeline.policy.runs :]),
        audit=_describe_audit(pipeline, decision),
    )


def parse(content: Mapping[str, Any]) -> Proposal:
    """Parse a proposal from the output of the task that made it."""
    return Proposal(**{**content, "runs": tuple(content["runs"])})


class ApprovalRejectedError(LakeError):
    """Approval whose evidence has changed, or that names no person; nothing was written."""


def check_unchanged(
    approved: Proposal, pipeline: Pipeline, evidence: GateEvidence, decision: GateDecision, *, turn: int
) -> None:
    """Check that the approved move and its evidence have not changed.

    Raises:
        ApprovalRejectedError: Names the change; nothing was written.
    """
    eligible = {run.run_id for run in decision.eligible_runs}
    ineligible = [run_id for run_id in approved.runs if run_id not in eligible]
    for name, approved_value, current_value in (
        ("pipeline", approved.pipeline, pipeline.name),
        ("moves and withdrawals", approved.turn, turn),
        ("stage", approved.stage, str(decision.stage)),
        ("target", approved.target, str(decision.target)),
        ("definition", approved.result_fingerprint, result_fingerprint(pipeline)),
        ("`policy.audit`", approved.audit, _describe_audit(pipeline, decision)),
        ("version of the stream", approved.stream_version, evidence.stream_version),
    ):
        if approved_value != current_value:
            raise _make_rejection(pipeline, f"{name}: {approved_value} was approved, it is {current_value}")
    if ineligible:
        more = "" if len(ineligible) == 1 else f" and {len(ineligible) - 1} more"
        raise _make_rejection(pipeline, f"run {ineligible[0]}{more} was approved and is no longer eligible")


def _describe_audit(pipeline: Pipeline, decision: GateDecision) -> str:
    return power.describe(pipeline.policy.audit) if decision.target is Stage.KAPPA else ""


def check_has_person(approved: Approval) -> None:
    """Check that an approval names a person: a default response, or one without a user name, does not.

    Raises:
        ApprovalRejectedError: Nothing was written.
    """
    if not approved.who.strip():
        msg = f"Approval for `{approved.proposal.pipeline}`: expected the person who gave it, got no name."
        raise ApprovalRejectedError(msg + "\nHint: respond to it in Airflow (Required Actions), logged in as yourself.")


def has_moved(settings: Settings, proposal: Proposal) -> bool:
    """Return whether the latest move of the gate is the proposed one, as when a task is retried."""
    rows = list_moves(settings, proposal.pipeline)
    if not rows:
        return False
    return bool(json.loads(rows[-1].evidence).get("approved") == proposal.digest)


def _make_rejection(pipeline: Pipeline, reason: str) -> ApprovalRejectedError:
    msg = f"Approval for `{pipeline.name}`: expected the approved evidence, {reason}."
    return ApprovalRejectedError(msg + f"\nHint: run `{pipeline.name}_cutover` again and review the current evidence.")
