"""What follows from an audit: where it found a regression in KAPPA, batch serves again."""

from cutover.clock import Clock
from cutover.definition.model.pipeline import Pipeline
from cutover.lake.control.stages import Stage, current_stage
from cutover.reconcile.gate import stage
from cutover.reconcile.judgement.audits import audit_record
from cutover.reconcile.judgement.audits.audit_record import AuditState, WindowAudit
from cutover.settings import Settings


def put_back(settings: Settings, pipeline: Pipeline, clock: Clock) -> bool:
    """Move from KAPPA back to LAMBDA by the newest audit, if that found a regression; return whether a move was made.

    The event of the gate keeps the audit as its evidence: seed, sample and rows. Made once, however often it is called.

    Raises:
        LakeError: Another move was made at the same time, or the history cannot be read.
    """
    known = audit_record.list_audits(settings, pipeline)
    if not known or known[-1].state is not AuditState.REGRESSION:
        return False
    if current_stage(settings, pipeline) is not Stage.KAPPA:
        return False
    stage.move(settings, pipeline, "rollback", _describe(known[-1]), clock, because={"audit": _kept(known[-1])})
    return True


def _describe(found: WindowAudit) -> str:
    return f"audit at {found.at}: {found.unexplained:,} rows of final windows differ from their recomputation"


def _kept(found: WindowAudit) -> dict[str, object]:
    return {
        "at": found.at,
        "epoch": found.epoch,
        "seed": found.seed,
        "windows": list(found.windows),
        "wrong": list(found.wrong),
        "unexplained": found.unexplained,
        "examples": list(found.examples),
    }
