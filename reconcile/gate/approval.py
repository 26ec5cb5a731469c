"""What a person approves: one move, on the evidence that was shown, and nothing else.

A proposal names the stage, the version, the definition, what audits are to find and the runs that counted. The move
that it allows is refused once any of that is no more: another move was made, this one was withdrawn, the definition,
the version or the policy of audits changed, or one of the newest runs that it rests on does not count any more since it
expired or a later one spoke against it.
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
    """A move that the recorded evidence allows, as it is put before a person."""

    pipeline: str
    stage: str
    target: str
    turn: int  # rows of the gate's history when it was made
    result_fingerprint: str
    stream_version: int | None
    runs: tuple[str, ...]  # ids of the newest that counted, as many as the policy asks for, oldest first
    audit: str = ""  # what the policy asks the samples in KAPPA for, in words; "": of a move to another stage

    @property
    def digest(self) -> str:
        """Return what an approval is bound to: sha256 of all that it names, as canonical JSON."""
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A person's yes to a proposal."""

    proposal: Proposal
    who: str


def make_proposal(settings: Settings, pipeline: Pipeline, clock: Clock) -> tuple[GateDecision, Proposal | None]:
    """Return what the gate says of the next stage, and, if it allows it, what a person is to approve.

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
        runs=tuple(run.run_id for run in decision.counted[-pipeline.policy.runs :]),
        audit=_describe_audit(pipeline, decision),
    )


def parse(said: Mapping[str, Any]) -> Proposal:
    """Return a proposal as a task before handed it on."""
    return Proposal(**{**said, "runs": tuple(said["runs"])})


class ApprovalRefusedError(LakeError):
    """What was approved is no more, or nobody approved it: nothing was written."""


def refuse_changed(
    approved: Proposal, pipeline: Pipeline, evidence: GateEvidence, decision: GateDecision, *, turn: int
) -> None:
    """Refuse an approval of what is no more.

    Raises:
        ApprovalRefusedError: Says what changed since; nothing was written.
    """
    counted = {run.run_id for run in decision.counted}
    gone = [run_id for run_id in approved.runs if run_id not in counted]
    for what, then, now in (
        ("pipeline", approved.pipeline, pipeline.name),
        ("moves and withdrawals", approved.turn, turn),
        ("stage", approved.stage, str(decision.stage)),
        ("target", approved.target, str(decision.target)),
        ("definition", approved.result_fingerprint, result_fingerprint(pipeline)),
        ("`policy.audit`", approved.audit, _describe_audit(pipeline, decision)),
        ("version of the stream", approved.stream_version, evidence.stream_version),
    ):
        if then != now:
            raise _make_refusal(pipeline, f"{what}: {then} was approved, it is {now}")
    if gone:
        others = "" if len(gone) == 1 else f" and {len(gone) - 1} more"
        raise _make_refusal(pipeline, f"run {gone[0]}{others} was shown and does not count any more")


def _describe_audit(pipeline: Pipeline, decision: GateDecision) -> str:
    return power.describe(pipeline.policy.audit) if decision.target is Stage.KAPPA else ""


def refuse_unnamed(approved: Approval) -> None:
    """Refuse an approval that names no person: an answer by default, or one that nobody with a name has given.

    Raises:
        ApprovalRefusedError: Nothing was written.
    """
    if not approved.who.strip():
        msg = f"Approval for `{approved.proposal.pipeline}`: expected the person who gave it, got nobody."
        raise ApprovalRefusedError(msg + "\nHint: answer it in Airflow (Required Actions), logged in as yourself.")


def has_moved(settings: Settings, proposal: Proposal) -> bool:
    """Return whether the newest move of the gate is the one that a proposal asked for: a task that is run again."""
    rows = list_moves(settings, proposal.pipeline)
    if not rows:
        return False
    return bool(json.loads(rows[-1].evidence).get("approved") == proposal.digest)


def _make_refusal(pipeline: Pipeline, why: str) -> ApprovalRefusedError:
    msg = f"Approval for `{pipeline.name}`: expected the evidence that was shown, {why}."
    return ApprovalRefusedError(msg + f"\nHint: run `{pipeline.name}_cutover` again and look at what it shows now.")
