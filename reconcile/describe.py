"""What a report tells of a comparison beside its verdict: series, lateness, early answers, samples, notes.

The verdict is decided before; nothing here changes it.
"""

from dataclasses import replace
from statistics import median

from cutover.definition.model.pipeline import Pipeline
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.epochs.merged_epochs import list_merged_spans
from cutover.lake.epochs.read_speed import measure_read_speed
from cutover.reconcile.attribution import cells, dimension, loss
from cutover.reconcile.comparison.shared_tables import SharedTable
from cutover.reconcile.comparison.sides import Sides
from cutover.reconcile.early import answers as early_answers
from cutover.reconcile.early import open_windows
from cutover.reconcile.judgement import ages, all_differences, behind, days, series, settlement
from cutover.reconcile.preconditions.seal import SealEvidence
from cutover.reconcile.request import ComparisonRequest
from cutover.reconcile.result.outcome import Events, Expectation, Reconciliation
from cutover.reconcile.result.replay_text import describe_pace_of_reading
from cutover.records.classes import Class
from cutover.settings import Settings


def describe(
    settings: Settings,
    pipeline: Pipeline,
    evidence: SealEvidence,
    sides: Sides,
    asked: ComparisonRequest,
    found: Reconciliation,
) -> Reconciliation:
    """Return a comparison with all that its report tells; every row that differs goes into the Parquet asked for.

    Args:
        settings: Where the lake is, and how to reach the log.
        pipeline: The definition.
        evidence: What the sides were opened from.
        sides: Open, with their causes attributed.
        asked: How much of it is told.
        found: The verdict, its counts and causes.
    """
    if asked.parquet is not None:
        all_differences.write(sides, asked.parquet)
    ages.make(sides.connection, pipeline, evidence.records, list_merged_spans(evidence.epoch_log.table))
    told = replace(
        found,
        seal=replace(found.seal, dimensions=dimension.versions(settings, pipeline, evidence)),
        events=_events(sides, pipeline, evidence),
        waterfall=series.waterfalls(sides, pipeline),
        window_series=series.windows(sides, pipeline),
        days=days.calendar(sides),
        lateness_histogram=series.lateness(sides, pipeline),
        settlement=settlement.measure(sides, pipeline, evidence.records),
        epochs_series=series.epochs(evidence.records),
        worst_keys=series.worst_keys(sides, pipeline),
        apart=series.measure_apart(sides),
        segments=series.over_represented(sides, pipeline),
        samples=series.samples(sides, pipeline),
        behind=behind.read(sides, pipeline, limit=asked.listed),
        differences_total=cells.total(sides),
        contract=tuple(
            Expectation(expectation=c.expectation, severity=c.severity, success=c.success, observed=c.observed)
            for c in evidence.run.contract
        ),
        losses=loss.ranges(evidence.losses),
        loss=loss.sentence(evidence.losses, sides.incomplete),
        notes=(*found.notes, *_notes(pipeline, evidence)),
    )
    if not asked.looks_early:
        return told
    return replace(
        told,
        early=early_answers.measure(sides, pipeline, evidence),
        open_answers=open_windows.measure(settings, pipeline, evidence, sides, log=asked.log, silent=asked.silent),
    )


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
    query = f"SELECT {records} FROM {SharedTable.LEDGER} GROUP BY ALL"  # noqa: S608 -- names of ours
    found = sides.connection.execute(query).fetchall()
    counts = {name: sum(row[0] == name for row in found) for name in ("malformed", "future", "duplicate", "late")}
    wholly_late = sum(row[0] == "late" and row[4] == len(pipeline.window.intervals(row[3])) for row in found)
    read = sum(record.records for record in evidence.records)
    out = sum(counts[name] for name in ("malformed", "future", "duplicate"))
    rest = read - pairs["filtered"] - out - wholly_late
    return {**counts, "accepted": rest}


def _notes(pipeline: Pipeline, evidence: SealEvidence) -> list[str]:
    """Return what a reader should know about how the numbers came to be."""
    notes = list(filter(None, (_describe_imbalance(name, evidence) for name in Class)))
    busy = [record for record in evidence.records if record.records]
    if busy:
        notes.append(_pace(pipeline, busy))
    return [*notes, *evidence.delivered.sentences, *dimension.notes(evidence), *loss.notes(evidence.losses)]


def _describe_imbalance(name: Class, evidence: SealEvidence) -> str:
    """Return a note if the epochs' own counts of a class and the rows of the epoch log do not agree."""
    counted = sum(record.counts.get(name, 0) for record in evidence.records)
    held = evidence.books.up_to_cut.get(name, 0)
    return "" if counted == held else f"The epochs counted {counted:,} {name} rows, the epoch log holds {held:,}."


def _pace(pipeline: Pipeline, busy: list[EpochRecord]) -> str:
    """Return how fast the log was read: the larger the epochs, the fewer records are judged late."""
    typical, cap = round(median(record.records for record in busy)), pipeline.max_rows_per_epoch
    text = f"Lateness was judged in epochs of {typical:,} records (median), at most {cap:,} an epoch."
    reading = measure_read_speed(busy)
    if reading.is_replay:
        text += f" The log was read {describe_pace_of_reading(reading.speed)}:"
        text += f" `cutover lateness {pipeline.name}` measures how many records would be late at real speed."
    return text
