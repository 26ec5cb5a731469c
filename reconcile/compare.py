"""What two open sides of a pipeline say about each other, gathered into one tree."""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from statistics import median

from cutover.definition.model.pipeline import Pipeline
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.reconcile.attribution import cells, dimension, loss, proof_cache
from cutover.reconcile.attribution.causes import UNEXPLAINED, Findings
from cutover.reconcile.attribution.judgement import judge
from cutover.reconcile.attribution.log_rows import LogReader
from cutover.reconcile.comparison.diff import Diff
from cutover.reconcile.comparison.shared_tables import SharedTable, stage
from cutover.reconcile.comparison.sides import DIMENSION, Sides
from cutover.reconcile.early import answers as early_answers
from cutover.reconcile.early import open_windows
from cutover.reconcile.judgement import all_differences, behind, days, series, settlement, verdict
from cutover.reconcile.judgement.acceptance import NOTHING, Acceptance, accept, count_rows, describe_unfit
from cutover.reconcile.judgement.verdict import VerdictInput
from cutover.reconcile.preconditions.seal import SealError, SealEvidence
from cutover.reconcile.result import query
from cutover.reconcile.result.codec import scalar
from cutover.reconcile.result.outcome import Events, Expectation, Reconciliation, Rows, Windows
from cutover.reconcile.result.seal import Seal
from cutover.records.classes import Class
from cutover.settings import Settings

_SECOND = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRequest:
    """What to compare, and by which rules."""

    start: datetime | None = None  # first window start, inclusive; None: all
    end: datetime | None = None  # exclusive
    epoch: int | None = None  # the batch run at this epoch's cut; None: the newest
    log: LogReader | None = None  # is asked for the records behind a difference; None: the cluster of the settings
    acceptance: Acceptance = NOTHING  # rules by which people accept differences, at the time of the run
    parquet: Path | None = None  # where every row that differs is written to
    listed: int = cells.ROWS_AT_MOST  # rows that differ of which `differences` tells, unexplained ones first
    looks_early: bool = False  # also at what was shown of windows before they closed, and of open ones
    silent: str | None = None  # why the cluster cannot be asked; None: it can


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
    events = _events(sides, pipeline, evidence)
    differences, accepted = accept(asked.acceptance, cells.read(sides, limit=asked.listed))
    if asked.parquet is not None:
        all_differences.write(sides, asked.parquet)
    judged = replace(_make_verdict_input(sides, findings), accepted=count_rows(accepted))
    decision = verdict.decide(judged, pipeline.policy)
    notes = (*judgement.notes, *_notes(pipeline, evidence, findings), *describe_unfit(accepted))
    return Reconciliation(
        pipeline=pipeline.name,
        run_id="",
        at="",
        verdict=decision.verdict,
        exit_code=decision.exit_code,
        sentence=verdict.sentence(decision.verdict, judged, decision.policy),
        seal=replace(seal, dimensions=dimension.versions(settings, pipeline, evidence)),
        windows=judged.windows,
        rows=judged.rows,
        events=events,
        causes=findings.causes,
        policy=decision.policy,
        waterfall=series.waterfalls(sides, pipeline),
        window_series=series.windows(sides, pipeline),
        days=days.calendar(sides),
        lateness_histogram=series.lateness(sides, pipeline),
        settlement=settlement.measure(sides, pipeline),
        epochs_series=series.epochs(evidence.records),
        early=early_answers.measure(sides, pipeline, evidence) if asked.looks_early else None,
        open_answers=open_windows.measure(settings, pipeline, evidence, sides, log=asked.log, silent=asked.silent)
        if asked.looks_early
        else None,
        worst_keys=series.worst_keys(sides, pipeline),
        apart=series.measure_apart(sides),
        segments=series.over_represented(sides, pipeline),
        samples=series.samples(sides, pipeline),
        behind=behind.read(sides, pipeline, limit=asked.listed),
        differences=differences,
        differences_total=cells.total(sides),
        accepted=accepted,
        contract=tuple(
            Expectation(expectation=c.expectation, severity=c.severity, success=c.success, observed=c.observed)
            for c in evidence.run.contract
        ),
        losses=loss.ranges(evidence.losses),
        loss=loss.sentence(evidence.losses, sides.incomplete),
        notes=(*notes, *evidence.delivered.sentences, *dimension.notes(evidence), *loss.notes(evidence.losses)),
        runbook=decision.runbook,
    )


def _make_verdict_input(sides: Sides, findings: Findings) -> VerdictInput:
    bounds = f"""
        SELECT min(window_start), max(window_start) FROM
        (SELECT window_start FROM {SharedTable.EXPECTED} UNION ALL SELECT window_start FROM {stage(0)})
    """
    first, last = query.first(sides.connection, bounds)
    touched = query.number(sides.connection, f"SELECT count(*) FROM {SharedTable.TOUCHED}")
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
    return query.number(sides.connection, f"SELECT sum(_n) FROM {stage(number)}")


def _rows(sides: Sides, plain: Diff) -> Rows:
    compared = query.number(sides.connection, f"SELECT count(*) FROM {stage(0)}") + plain.missing
    return Rows(compared=compared, missing=plain.missing, extra=plain.extra, changed=plain.changed)


def _events(sides: Sides, pipeline: Pipeline, evidence: SealEvidence) -> Events:
    """Count records by class up to the cut.

    With sliding windows a record falls into several, and may be late in some: it is late then, and accepted too.
    """
    pairs = evidence.books.up_to_cut
    counts = {name.value: pairs.get(name, 0) for name in Class}
    if pipeline.window.most > 1:
        counts |= _count_distinct(sides, pipeline, evidence, counts)
    return Events(**counts, unknown_fields=sum(record.unknown for record in evidence.records))


def _count_distinct(sides: Sides, pipeline: Pipeline, evidence: SealEvidence, pairs: dict[str, int]) -> dict[str, int]:
    records = "_class, _partition, _offset, max(epoch_us(event_time)), count(*)"
    found = sides.connection.execute(f"SELECT {records} FROM {SharedTable.LEDGER} GROUP BY ALL").fetchall()
    counts = {name: sum(row[0] == name for row in found) for name in ("malformed", "future", "duplicate", "late")}
    wholly_late = sum(row[0] == "late" and row[4] == len(pipeline.window.intervals(row[3])) for row in found)
    read = sum(record.records for record in evidence.records)
    out = sum(counts[name] for name in ("malformed", "future", "duplicate"))
    rest = read - pairs["filtered"] - out - wholly_late
    return {**counts, "accepted": rest}


def _notes(pipeline: Pipeline, evidence: SealEvidence, findings: Findings) -> list[str]:
    """Return what a reader should know about how the numbers came to be."""
    notes = []
    if findings.plain.duplicates_expected:
        notes.append(f"The batch table has {findings.plain.duplicates_expected:,} keys more than once in a window.")
    notes += filter(None, (_describe_imbalance(name, evidence) for name in Class))
    busy = [record for record in evidence.records if record.records]
    if busy:
        notes.append(_pace(pipeline, busy))
    return notes


def _describe_imbalance(name: Class, evidence: SealEvidence) -> str:
    """Return a note if the epochs' own counts of a class and the rows of the epoch log do not agree."""
    counted = sum(record.counts.get(name, 0) for record in evidence.records)
    held = evidence.books.up_to_cut.get(name, 0)
    return "" if counted == held else f"The epochs counted {counted:,} {name} rows, the epoch log holds {held:,}."


def _pace(pipeline: Pipeline, busy: list[EpochRecord]) -> str:
    """Return how fast the log was read: the larger the epochs, the fewer records are judged late."""
    typical, cap = round(median(record.records for record in busy)), pipeline.max_rows_per_epoch
    text = f"Lateness was judged in epochs of {typical:,} records (median), at most {cap:,} an epoch."
    seen = [max(record.max_event.values()) for record in (busy[0], busy[-1]) if record.max_event]
    took = sum(record.seconds for record in busy)
    if len(seen) > 1 and took and (seen[1] - seen[0]) / _SECOND / took > 2:  # noqa: PLR2004 -- twice real time
        speed = round((seen[1] - seen[0]) / _SECOND / took)
        text += f" The log was read about {speed:,} times faster than it came about:"
        text += " at real speed epochs are smaller, and more records are late."
    return text
