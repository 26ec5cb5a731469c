"""Two open sides, judged: the ledger is questioned, differences get their causes, the log must bear these out."""

# ruff: noqa: S608 -- every name in a query is ours

from dataclasses import dataclass

from cutover.definition.model.pipeline import Pipeline
from cutover.engine.queries import number
from cutover.reconcile.attribution import causes, dimension, ledger
from cutover.reconcile.attribution.causes import Findings
from cutover.reconcile.attribution.log_rows import LogReader
from cutover.reconcile.attribution.proof import UNPROVEN, Proof
from cutover.reconcile.comparison.shared_tables import SharedTable
from cutover.reconcile.comparison.sides import Sides
from cutover.reconcile.preconditions.seal import SealEvidence
from cutover.reconcile.result.seal import SealBreach
from cutover.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What is found of two sides, which have all their stages now."""

    sides: Sides
    findings: Findings
    notes: tuple[str, ...]
    proven: tuple[str, ...]  # digests of claims that the log bore out just now, see `proofs`
    unproven: SealBreach | None  # nothing is known to lack a cause, and of some rows nobody can say any more


def judge(
    settings: Settings, pipeline: Pipeline, evidence: SealEvidence, sides: Sides, log: LogReader | None = None
) -> Judgement:
    """Find what differs and why; makes the tables of `ledger` and `causes`.

    Args:
        settings: How to reach the log.
        pipeline: The definition.
        evidence: What the sides were opened from.
        sides: Open sides.
        log: What is asked for the records behind a claim; None: the cluster of the settings.

    Raises:
        SealError: Whether versions of a dimension are the cause can be neither shown nor ruled out.
    """
    doubts = ledger.question(sides, pipeline, evidence.records)
    proof = Proof(settings, pipeline, evidence, log)
    whole = dimension.stage_refold(settings, pipeline, evidence, proof.with_swaps(sides))
    plain = causes.differ(whole)
    notes = proof.check(whole, causes.select_claimed_sql(whole))
    findings = causes.find(whole, plain)
    unproven = None if proof.breach is None or _count_certain(whole) else proof.breach
    return Judgement(
        sides=whole, findings=findings, notes=(*doubts, *notes), proven=tuple(proof.found), unproven=unproven
    )


def _count_certain(sides: Sides) -> int:
    """Return how many rows have no cause, whatever the log would say of others."""
    gone = f"EXISTS (SELECT 1 FROM {UNPROVEN} u WHERE {sides.layout.same_place('u', 't')})"
    return number(sides.connection, f"SELECT count(*) FROM {SharedTable.TOUCHED} t WHERE _explained = 0 AND NOT {gone}")
