"""Attribution of differences: check the ledger, assign causes to rows, and prove the causes from the log."""

# ruff: noqa: S608 -- every name in a query is a constant

from dataclasses import dataclass

from cutover.definition.model.pipeline import Pipeline
from cutover.engine.queries import fetch_number
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
class Attribution:
    """Causes of the differences between two sides that have all their stages."""

    sides: Sides
    findings: Findings
    notes: tuple[str, ...]
    proven: tuple[str, ...]  # digests of claims that this comparison proved from the log, see `proof_cache`
    unproven: SealBreach | None  # set if every row has a cause, but some of these causes can no longer be proven


def attribute_causes(
    settings: Settings, pipeline: Pipeline, evidence: SealEvidence, sides: Sides, log: LogReader | None = None
) -> Attribution:
    """Find which rows differ and why; creates the tables of `ledger` and `causes`.

    Args:
        settings: Where the log and the lake are.
        pipeline: The definition.
        evidence: Tables and records that the sides were opened from.
        sides: Open sides.
        log: Source of the records for each claim; None: the cluster of the settings.

    Raises:
        SealError: Versions of a dimension can be neither proven nor ruled out as a cause.
    """
    doubts = ledger.list_doubts(sides, pipeline, evidence.records)
    proof = Proof(settings, pipeline, evidence, log)
    staged_sides = dimension.stage_refold(settings, pipeline, evidence, proof.with_swaps(sides))
    plain = causes.diff_stages(staged_sides)
    notes = proof.check(staged_sides, causes.select_claimed_sql(staged_sides))
    return Attribution(
        sides=staged_sides,
        findings=causes.find_causes(staged_sides, plain),
        notes=(*doubts, *notes),
        proven=tuple(proof.proven),
        unproven=None if proof.breach is None or _count_certainly_unexplained(staged_sides) else proof.breach,
    )


def _count_certainly_unexplained(sides: Sides) -> int:
    """Count rows that stay unexplained, whatever the log would prove about the unproven ones."""
    unproven = f"EXISTS (SELECT 1 FROM {UNPROVEN} u WHERE {sides.layout.same_place('u', 't')})"
    return fetch_number(
        sides.connection, f"SELECT count(*) FROM {SharedTable.TOUCHED} t WHERE _explained = 0 AND NOT {unproven}"
    )
