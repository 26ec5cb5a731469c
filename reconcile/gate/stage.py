"""The stage of a pipeline and its history: each change one appended row with who, why and the evidence.

The serving view reads the newest row, so it follows in the same commit.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from cutover.clock import Clock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.events import log
from cutover.lake.control.signature import InvalidReasonError, reason, user
from cutover.lake.control.stages import WITHDRAWN, Stage, current_stage, read_events
from cutover.lake.journal import Journal, SequenceConflictError, retry_conflicts
from cutover.lake.journal_rows import ComparisonRow, GateEvent
from cutover.lake.serving import serving_table
from cutover.metrics import tasks
from cutover.probe import Probe, silent
from cutover.reconcile.gate import evidence as evidence_of
from cutover.reconcile.gate import gate_metrics
from cutover.reconcile.gate.approval import Approval, ApprovalRefusedError, Proposal, refuse_changed, refuse_unnamed
from cutover.reconcile.gate.decide import GateDecision, GateEvidence, Move, decide
from cutover.reconcile.verdict.audits import audit_record, power
from cutover.reconcile.verdict.audits.audit_record import AuditState, WindowAudit
from cutover.settings import Settings

_EVENTS: dict[Move, str] = {"advance": "advanced", "rollback": "rolled_back"}
_ANSWERS = (InvalidReasonError, SequenceConflictError, ApprovalRefusedError)
"""A reason that is none, a move of somebody else in that turn, an approval of what is no more: no task has failed."""


@tasks.write_metrics("gate", tasks.texts(gate_metrics.samples), answers=_ANSWERS)
def move(  # noqa: PLR0913 -- what to move, where to, why, and what a test hands in
    settings: Settings,
    pipeline: Pipeline,
    wanted: Move,
    why: str,
    clock: Clock,
    *,
    back_to: Stage = Stage.LAMBDA,
    approved: Approval | None = None,
    because: Mapping[str, Any] | None = None,
    who: str | None = None,
    probe: Probe = silent,
) -> GateDecision:
    """Decide on a move and, if it is allowed, append it to the history.

    An advance that the recorded evidence allows is decided once more, on what is there now. With an approval it must
    be the move that was approved, on what was shown then. What a way back was made `because` of is kept with it. A way
    back to where the pipeline `stays` takes the turn: a move on that had begun cannot be made afterwards.

    Returns:
        The decision; the stage is as it was unless it is `allowed`. Readers whose table is `behind` see the old one.

    Raises:
        DefinitionError: `why` is empty or too long.
        LakeError: Another move was made at the same time, or what was approved is no more; nothing was written.
    """
    return _move(
        settings,
        pipeline,
        wanted,
        why,
        clock,
        back_to=back_to,
        approved=approved,
        because=because,
        who=who,
        probe=probe,
    )


def _move(  # noqa: PLR0913 -- as `move`
    settings: Settings,
    pipeline: Pipeline,
    wanted: Move,
    why: str,
    clock: Clock,
    *,
    back_to: Stage,
    approved: Approval | None = None,
    because: Mapping[str, Any] | None,
    who: str | None,
    probe: Probe = silent,
) -> GateDecision:
    given = reason(why, of="Gate")
    turn = len(read_events(settings, pipeline.name))  # read first: a move made from here on is refused
    stage = current_stage(settings, pipeline, way_back=wanted == "rollback")
    seen = _read_next_sequence(settings, pipeline.name)
    now = clock.now()
    evidence = _evidence(settings, pipeline, wanted, now)
    decision = decide(stage, evidence, wanted, pipeline.policy, now, back_to=back_to).name_pipeline(pipeline.name)
    if approved is not None:
        refuse_unnamed(approved)
        refuse_changed(approved.proposal, pipeline, evidence, decision, turn=turn)
    if decision.allowed and wanted == "advance":
        from cutover.reconcile.gate import present  # noqa: PLC0415 -- both paths and the log: only an advance needs them

        found = present.look(settings, pipeline, clock)
        seen = _read_next_sequence(settings, pipeline.name)
        now = clock.now()
        evidence = replace(evidence_of.read(settings, pipeline, now), present=found)
        decision = decide(stage, evidence, wanted, pipeline.policy, now).name_pipeline(pipeline.name)
        if approved is not None and decision.allowed:  # the look takes minutes, in which others may change things
            refuse_changed(approved.proposal, pipeline, evidence, decision, turn=turn)
    signature = ((who or user()) if approved is None else approved.who, given)
    event = _make_withdrawal(
        pipeline, decision, evidence, signature, next_comparison=seen, because=because, clock=clock
    )
    if decision.allowed and decision.target is not None:
        digest = None if approved is None else approved.proposal.digest
        audit = power.describe(pipeline.policy.audit)
        kept = evidence_of.record(decision, evidence, approved=digest, because=because, audit=audit)
        made = replace(event, event=_EVENTS[decision.move], stage=decision.target, evidence=kept)
        _append(settings, made, decision, turn=turn)
        decision = replace(decision, behind=serving_table.keep_up(settings, pipeline))
        probe("move.switched", -1)
    elif stays(decision, back_to):
        Journal(settings, pipeline.name, GateEvent).append(event, expected_sequence=turn)
        log.warning("move_withdrawn", pipeline=pipeline.name, target=None, why=given)
    return decision


def withdraw(settings: Settings, proposal: Proposal, why: str, clock: Clock) -> None:
    """Withdraw a move that was proposed and is not made: whoever is still at it cannot make it any more.

    A row of the history takes its turn; the stage, and what speaks for the next move, stay. If a move was made since,
    there is nothing to withdraw.

    Raises:
        LakeError: The history cannot be read, or other processes were always faster.
    """
    retry_conflicts(lambda: _withdraw_now(settings, proposal, why, clock))


def _withdraw_now(settings: Settings, proposal: Proposal, why: str, clock: Clock) -> None:
    turn = len(read_events(settings, proposal.pipeline))
    if turn != proposal.turn:
        return
    event = GateEvent(
        pipeline=proposal.pipeline,
        at=clock.now(),
        event=WITHDRAWN,
        stage=proposal.stage,
        result_fingerprint=proposal.result_fingerprint,
        stream_version=proposal.stream_version,
        who=user(),
        why=why,
        evidence=json.dumps({"withdrawn": proposal.digest}),
        next_comparison=_read_next_sequence(settings, proposal.pipeline),
    )
    Journal(settings, proposal.pipeline, GateEvent).append(event, expected_sequence=turn)
    log.warning("move_withdrawn", pipeline=proposal.pipeline, target=proposal.target, why=why)


@tasks.write_metrics("gate", tasks.texts(gate_metrics.samples), answers=(InvalidReasonError,))
def roll_back(  # noqa: PLR0913 -- as `move`
    settings: Settings,
    pipeline: Pipeline,
    why: str,
    clock: Clock,
    *,
    back_to: Stage = Stage.LAMBDA,
    because: Mapping[str, Any] | None = None,
    who: str | None = None,
) -> GateDecision:
    """Move back, again where another move was faster; where that stage is already, `move` says what happens.

    Raises:
        DefinitionError: `why` is empty or too long.
        LakeError: The history cannot be read or written, or other processes were always faster.
    """
    return retry_conflicts(
        lambda: _move(settings, pipeline, "rollback", why, clock, back_to=back_to, because=because, who=who)
    )


def stays(decision: GateDecision, back_to: Stage) -> bool:
    """Return whether a way back leads to where the pipeline is, which says: do not move on."""
    is_back = decision.move == "rollback" and decision.target is None
    return is_back and decision.stage is back_to is not Stage.KAPPA


def _read_next_sequence(settings: Settings, name: str) -> int:
    """Return the sequence of the next comparison; read before the evidence, which then holds all before it."""
    return Journal(settings, name, ComparisonRow).next_sequence()


def _evidence(settings: Settings, pipeline: Pipeline, wanted: Move, now: datetime) -> GateEvidence:
    """Read the evidence; a way back asks for none, so it works when nothing else does."""
    return GateEvidence() if wanted == "rollback" else evidence_of.read(settings, pipeline, now)


def _make_withdrawal(  # noqa: PLR0913 -- the columns of a row
    pipeline: Pipeline,
    decision: GateDecision,
    evidence: GateEvidence,
    signature: tuple[str, str],
    *,
    next_comparison: int,
    because: Mapping[str, Any] | None,
    clock: Clock,
) -> GateEvent:
    """Make the row that leaves the stage as it is; a move replaces its event, stage and evidence."""
    return GateEvent(
        pipeline=pipeline.name,
        at=clock.now(),
        event=WITHDRAWN,
        stage=decision.stage,
        result_fingerprint=result_fingerprint(pipeline),
        stream_version=evidence.stream_version,
        who=signature[0],
        why=signature[1],
        evidence=json.dumps({"because": because}),
        next_comparison=next_comparison,
    )


def _append(settings: Settings, event: GateEvent, decision: GateDecision, *, turn: int) -> None:
    sequence = Journal(settings, event.pipeline, GateEvent).append(event, expected_sequence=turn)
    names = {"pipeline": event.pipeline, "before": str(decision.stage), "after": str(decision.target)}
    log.info("stage_changed", **names, sequence=sequence, who=event.who)


def put_back_regression(settings: Settings, pipeline: Pipeline, clock: Clock) -> bool:
    """Move from KAPPA back to LAMBDA by the newest audit, if that found a regression; return whether a move was made.

    The event of the gate keeps the audit as its evidence: seed, sample and rows. Made once, however often it is called.

    Raises:
        LakeError: Another move was made at the same time, or the history cannot be read.
    """
    known = audit_record.list_audits(settings, pipeline)
    if not known or known[-1].state is not AuditState.REGRESSION:
        return False
    if current_stage(settings, pipeline, way_back=True) is not Stage.KAPPA:
        return False
    because = {"audit": _keep_regression(known[-1])}
    roll_back(settings, pipeline, _describe_regression(known[-1]), clock, because=because)
    return True


def _describe_regression(found: WindowAudit) -> str:
    return f"audit at {found.at}: {found.unexplained:,} rows of final windows differ from their recomputation"


def _keep_regression(found: WindowAudit) -> dict[str, object]:
    return {
        "at": found.at,
        "epoch": found.epoch,
        "seed": found.seed,
        "windows": list(found.windows),
        "wrong": list(found.wrong),
        "unexplained": found.unexplained,
        "examples": list(found.examples),
    }
