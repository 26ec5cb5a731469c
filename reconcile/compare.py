"""The verdict on two open sides of a pipeline: causes, what people accept, what the policy allows."""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from dataclasses import replace

from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries
from cutover.reconcile.attribution import cells, proof_cache
from cutover.reconcile.attribution.causes import UNEXPLAINED, Findings
from cutover.reconcile.attribution.judgement import judge
from cutover.reconcile.comparison.diff import Diff
from cutover.reconcile.comparison.shared_tables import SharedTable, stage
from cutover.reconcile.comparison.sides import DIMENSION, Sides
from cutover.reconcile.describe import describe
from cutover.reconcile.judgement import verdict
from cutover.reconcile.judgement.acceptance import accept, count_rows, describe_unfit
from cutover.reconcile.judgement.verdict import VerdictInput
from cutover.reconcile.preconditions.seal import SealError, SealEvidence
from cutover.reconcile.request import ComparisonRequest
from cutover.reconcile.result.codec import scalar
from cutover.reconcile.result.outcome import Reconciliation, Rows, Windows
from cutover.reconcile.result.seal import Seal
from cutover.records.classes import Class
from cutover.settings import Settings


def compare(
    settings: Settings,
    pipeline: Pipeline,
    evidence: SealEvidence,
    seal: Seal,
    sides: Sides,
    asked: ComparisonRequest,
) -> Reconciliation:
    """Return the comparison of both sides; run id, time and report paths are still to be set.

    Args:
        settings: Where the lake is, and how to reach the log.
        pipeline: The definition.
        evidence: What the sides were opened from.
        seal: It holds.
        sides: Open sides.
        asked: What is asked for records, and the rules by which people accept differences.

    Raises:
        SealError: Whether causes hold can no longer be shown.
    """
    judgement = judge(settings, pipeline, evidence, sides, asked.log)
    proof_cache.remember(settings, pipeline, judgement.proven)
    if judgement.unproven is not None:
        raise SealError(judgement.unproven)
    sides, findings = judgement.sides, judgement.findings
    differences, accepted = accept(asked.acceptance, cells.read(sides, limit=asked.listed))
    judged = replace(_make_verdict_input(sides, findings), accepted=count_rows(accepted))
    decision = verdict.decide(judged, pipeline.policy)
    found = Reconciliation(
        pipeline=pipeline.name,
        run_id="",
        at="",
        verdict=decision.verdict,
        exit_code=decision.exit_code,
        sentence=verdict.sentence(decision.verdict, judged, decision.policy),
        seal=seal,
        windows=judged.windows,
        rows=judged.rows,
        causes=findings.causes,
        policy=decision.policy,
        differences=differences,
        accepted=accepted,
        notes=(*judgement.notes, *_note_duplicates(findings), *describe_unfit(accepted)),
        runbook=decision.runbook,
    )
    return describe(settings, pipeline, evidence, sides, asked, found)


def _note_duplicates(findings: Findings) -> tuple[str, ...]:
    many = findings.plain.duplicates_expected
    return (f"The batch table has {many:,} keys more than once in a window.",) if many else ()


def _make_verdict_input(sides: Sides, findings: Findings) -> VerdictInput:
    bounds = f"""
        SELECT min(window_start), max(window_start) FROM
        (SELECT window_start FROM {SharedTable.EXPECTED} UNION ALL SELECT window_start FROM {stage(0)})
    """
    first, last = queries.first(sides.connection, bounds)
    touched = queries.number(sides.connection, f"SELECT count(*) FROM {SharedTable.TOUCHED}")
    accepted, with_late = _pairs(sides, 0), _pairs(sides, 1)
    return VerdictInput(
        windows=Windows(
            compared=findings.plain.groups,
            different=findings.different_windows,
            open=sides.open_windows,
            incomplete=sides.incomplete_windows,
            incomplete_because=dict(sides.incomplete),
            first=None if first is None else str(scalar(first)),
            last=None if last is None else str(scalar(last)),
        ),
        rows=_rows(sides, findings.plain),
        explained=touched - findings.unexplained,
        unexplained=findings.unexplained,
        dimension=findings.causes[DIMENSION].rows,
        late=findings.causes[Class.LATE].events,
        late_share=verdict.late_share(with_late - accepted, accepted),
        causes=tuple(name for name, cause in findings.causes.items() if cause.rows and name != UNEXPLAINED),
    )


def _pairs(sides: Sides, number: int) -> int:
    return queries.number(sides.connection, f"SELECT sum(_n) FROM {stage(number)}")


def _rows(sides: Sides, plain: Diff) -> Rows:
    compared = queries.number(sides.connection, f"SELECT count(*) FROM {stage(0)}") + plain.missing
    return Rows(compared=compared, missing=plain.missing, extra=plain.extra, changed=plain.changed)
