"""Stage of a pipeline and its history: each change appends one row with its author, its reason and the evidence.

The serving view reads the latest row, so it changes in the same commit. Metrics of a decision are the resulting stage,
whether the move was allowed, and the unmet conditions. Recorded evidence describes an earlier moment, so a new
comparison, every check and every alert describe the moment of a move.

A person approves one move, on the evidence that the person saw. A proposal names the stage, the version, the
definition, the audit policy and the eligible runs. An approved move is rejected once any of these has changed: another
move was made, this one was withdrawn, the definition, the version or the audit policy changed, or one of the latest
runs on which it is based is no longer eligible, because it expired or a later run contradicted it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cutover import changes, metrics
from cutover.changes import Approval, ApprovalRejectedError, InvalidReasonError, check_reason, user
from cutover.clock import Clock, Probe, silent
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.policy import Stage
from cutover.events import log
from cutover.lake.control.served import WITHDRAWN, current_stage, list_moves, read_gate_events
from cutover.lake.journal import Journal, SequenceConflictError, retry_conflicts
from cutover.lake.journal_rows import ComparisonRow, GateEvent
from cutover.lake.serving import serving_table
from cutover.metrics import MetricSample
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.gate import evidence as evidence_of
from cutover.reconcile.gate.decide import EvidenceRun, GateDecision, GateEvidence, Move, PresentState, decide
from cutover.reconcile.result.text import count_noun
from cutover.reconcile.run import run_reconciliation
from cutover.reconcile.verdict import decision, history, statistics
from cutover.reconcile.verdict.history import AuditState, WindowAudit
from cutover.reconcile.verify.record import verify_and_record
from cutover.reconcile.watch.alerts.catalogue import list_firing
from cutover.reconcile.watch.collector import FactCollector
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
    return statistics.describe_requirement(pipeline.policy.audit) if decision.target is Stage.KAPPA else ""


def is_applied(settings: Settings, proposal: StageProposal) -> bool:
    """Return whether the latest move of the gate is the proposed one, as when a task is retried."""
    rows = list_moves(settings, proposal.pipeline)
    if not rows:
        return False
    return bool(json.loads(rows[-1].evidence).get("approved") == proposal.digest)


def examine_present(lake: PipelineLake, clock: Clock) -> PresentState:
    """Compare at the latest cut, run the checks and evaluate the alerts; record the comparison and the checks.

    Raises:
        LakeError: The history cannot be read or written. All other problems are part of the returned state.
    """
    report = run_reconciliation(lake, clock=clock)
    checks = verify_and_record(lake, clock=clock)
    return PresentState(
        run=EvidenceRun(
            run_id=report.run.run_id,
            at=clock.now(),
            epoch=-1 if report.finding.seal.epoch is None else report.finding.seal.epoch,
            outcome=decision.name_report_outcome(report),
            is_within_policy=report.finding.exit_code == 0 and report.run.scope_note is None,
            rows_by_cause=tuple((name, cause.rows) for name, cause in report.finding.causes.items() if cause.rows),
        ),
        reason=report.finding.sentence.partition("\n")[0],
        violations=tuple(f"{violation.check}: {violation.text}" for violation in checks.violations),
        check_error=checks.error,
        pages=tuple(_list_pages(lake, clock)),
    )


def _list_pages(lake: PipelineLake, clock: Clock) -> Iterator[str]:
    facts = FactCollector(lake, clock).collect()
    for alert in list_firing(facts):
        if alert.severity == "page":
            yield f"{alert.name}: {alert.text}"


_EVENTS: dict[Move, str] = {"advance": "advanced", "rollback": "rolled_back"}
_ANSWERS = (InvalidReasonError, SequenceConflictError, ApprovalRejectedError)
"""Outcomes that are not failures of a task: an invalid reason, a concurrent move, an outdated approval."""


def list_gate_samples(pipeline: Pipeline, decision: GateDecision) -> Iterator[MetricSample]:
    """Yield the metrics of a decision."""
    name = pipeline.name
    current = decision.target if decision.allowed else decision.stage
    for stage in Stage:
        yield MetricSample("cutover_gate_stage", (name, str(stage)), float(stage is current))
    yield MetricSample("cutover_gate_allowed", (name, decision.move), float(decision.allowed))
    met_count = sum(condition.is_met for condition in decision.conditions)
    for state, number in (("met", met_count), ("missing", len(decision.conditions) - met_count)):
        yield MetricSample("cutover_gate_conditions", (name, state), number)


@metrics.write_metrics("gate", metrics.describe_samples(list_gate_samples), answers=_ANSWERS)
def move(  # noqa: PLR0913 -- what to move, where to, why, and the clock and probe of a test
    lake: PipelineLake,
    direction: Move,
    reason: str,
    clock: Clock,
    *,
    back_to: Stage = Stage.LAMBDA,
    approved: StageApproval | None = None,
    because: Mapping[str, Any] | None = None,
    actor: str | None = None,
    probe: Probe = silent,
) -> GateDecision:
    """Decide on a move and, if it is allowed, append it to the history.

    An advance that the recorded evidence allows is decided a second time, on the present state. With an approval, it
    must be the approved move, on the evidence that the person saw. The cause of a rollback, `because`, is recorded with
    it. A rollback to the stage in which the pipeline `stays` appends a withdrawal, so that an advance that has already
    started cannot complete.

    Returns:
        The decision; unless it is `allowed`, the stage is unchanged. Readers of `stale_pipelines` see the old stage.

    Raises:
        DefinitionError: `reason` is empty or too long.
        LakeError: Another move was made at the same time, or the approved evidence has changed; nothing was written.
    """
    return _move(
        lake,
        direction,
        reason,
        clock,
        back_to=back_to,
        approved=approved,
        because=because,
        actor=actor,
        probe=probe,
    )


def _move(  # noqa: PLR0913 -- as `move`
    lake: PipelineLake,
    direction: Move,
    reason: str,
    clock: Clock,
    *,
    back_to: Stage,
    approved: StageApproval | None = None,
    because: Mapping[str, Any] | None,
    actor: str | None,
    probe: Probe = silent,
) -> GateDecision:
    settings, pipeline = lake.settings, lake.pipeline
    valid_reason = check_reason(reason, of="Gate")
    turn = len(read_gate_events(settings, pipeline.name))  # read first: a move made after this is rejected
    stage = current_stage(lake, way_back=direction == "rollback")
    next_comparison = _read_next_sequence(settings, pipeline.name)
    now = clock.now()
    # A rollback needs no evidence, so it works even if nothing can be read.
    evidence = GateEvidence() if direction == "rollback" else evidence_of.read_evidence(lake, now)
    decision = decide(stage, evidence, direction, pipeline.policy, now, back_to=back_to).name_pipeline(pipeline.name)
    if approved is not None:
        check_stage_approval(approved, pipeline, evidence, decision, turn=turn)
    if decision.allowed and direction == "advance":
        from cutover.reconcile.gate.stage import examine_present  # noqa: PLC0415 -- needs both paths and the log

        present_state = examine_present(lake, clock)
        next_comparison = _read_next_sequence(settings, pipeline.name)
        now = clock.now()
        evidence = replace(evidence_of.read_evidence(lake, now), present=present_state)
        decision = decide(stage, evidence, direction, pipeline.policy, now).name_pipeline(pipeline.name)
        if approved is not None and decision.allowed:  # the examination takes minutes, in which evidence can change
            check_stage_approval(approved, pipeline, evidence, decision, turn=turn)
    signature = ((actor or user()) if approved is None else approved.who, valid_reason)
    event = _make_withdrawal(
        pipeline, decision, evidence, signature, next_comparison=next_comparison, because=because, clock=clock
    )
    if decision.allowed and decision.target is not None:
        digest = None if approved is None else approved.proposal.digest
        audit = statistics.describe_requirement(pipeline.policy.audit)
        encoded = evidence_of.encode_evidence(decision, evidence, approved=digest, because=because, audit=audit)
        move_event = replace(event, event=_EVENTS[decision.move], stage=decision.target, evidence=encoded)
        _append(settings, move_event, decision, turn=turn)
        decision = replace(decision, stale_pipelines=serving_table.update_tables(lake))
        probe("move.switched", -1)
    elif stays(decision, back_to):
        Journal(settings, pipeline.name, GateEvent).append(event, expected_sequence=turn)
        log.warning("move_withdrawn", pipeline=pipeline.name, target=None, why=valid_reason)
    return decision


def withdraw_move(settings: Settings, proposal: StageProposal, reason: str, clock: Clock) -> None:
    """Withdraw a proposed move, so that a process that is still making it cannot complete it.

    A row appended to the history takes the sequence of the move; the stage, and the evidence for the next move, do not
    change. If another move was made after the proposal, there is nothing to withdraw.

    Raises:
        LakeError: The history cannot be read, or every retry conflicted with another process.
    """
    retry_conflicts(lambda: _withdraw_now(settings, proposal, reason, clock))


def _withdraw_now(settings: Settings, proposal: StageProposal, reason: str, clock: Clock) -> None:
    turn = len(read_gate_events(settings, proposal.pipeline))
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
        why=reason,
        evidence=json.dumps({"withdrawn": proposal.digest}),
        next_comparison=_read_next_sequence(settings, proposal.pipeline),
    )
    Journal(settings, proposal.pipeline, GateEvent).append(event, expected_sequence=turn)
    log.warning("move_withdrawn", pipeline=proposal.pipeline, target=proposal.target, why=reason)


@metrics.write_metrics("gate", metrics.describe_samples(list_gate_samples), answers=(InvalidReasonError,))
def roll_back_stage(
    lake: PipelineLake,
    reason: str,
    clock: Clock,
    *,
    back_to: Stage = Stage.LAMBDA,
    because: Mapping[str, Any] | None = None,
    actor: str | None = None,
) -> GateDecision:
    """Roll back, and retry if another move was made at the same time; if already in that stage, see `move`.

    Raises:
        DefinitionError: `reason` is empty or too long.
        LakeError: The history cannot be read or written, or every retry conflicted with another process.
    """
    return retry_conflicts(
        lambda: _move(lake, "rollback", reason, clock, back_to=back_to, because=because, actor=actor)
    )


def stays(decision: GateDecision, back_to: Stage) -> bool:
    """Return whether a rollback targets the current stage, which means: do not advance."""
    has_no_target = decision.move == "rollback" and decision.target is None
    return has_no_target and decision.stage is back_to is not Stage.KAPPA


def _read_next_sequence(settings: Settings, name: str) -> int:
    """Read the sequence of the next comparison; called before the evidence, which then includes all earlier ones."""
    return Journal(settings, name, ComparisonRow).next_sequence()


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
    """Make a row that does not change the stage; a move replaces its event, stage and evidence."""
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


def roll_back_regression(lake: PipelineLake, clock: Clock) -> bool:
    """Roll back from KAPPA to LAMBDA if the latest audit found a regression; return whether a move was made.

    The gate's event records the audit as its evidence: seed, sample and rows. Repeated calls roll back only once.

    Raises:
        LakeError: Another move was made at the same time, or the history cannot be read.
    """
    audits = history.list_audits(lake)
    if not audits or audits[-1].state is not AuditState.REGRESSION:
        return False
    if current_stage(lake, way_back=True) is not Stage.KAPPA:
        return False
    because = {"audit": _encode_audit(audits[-1])}
    roll_back_stage(lake, _describe_regression(audits[-1]), clock, because=because)
    return True


def _describe_regression(audit: WindowAudit) -> str:
    return f"audit at {audit.at}: {count_noun(audit.unexplained, 'row')} of final windows not as recomputed"


def _encode_audit(audit: WindowAudit) -> dict[str, object]:
    return {
        "at": audit.at,
        "epoch": audit.epoch,
        "seed": audit.seed,
        "windows": list(audit.windows),
        "wrong": list(audit.wrong),
        "unexplained": audit.unexplained,
        "examples": list(audit.examples),
    }
