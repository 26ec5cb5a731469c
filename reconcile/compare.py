"""Comparison of both sides of a pipeline at one cut: seal, sides, causes, acceptance, verdict, and what a report shows.

Nothing here depends on a clock, a run id or the order in which an engine reads rows, so the same sides give the same
finding, byte for byte. Rules of acceptance come with the time that decides which of them have expired.

Request of a comparison.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from statistics import median

import duckdb

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.window_fn import EARLIEST, FOREVER, LATEST
from cutover.engine import queries
from cutover.errors import LakeError
from cutover.lake.batch_runs import Range
from cutover.lake.epochs.epoch_log import EpochRecord, list_merged_spans
from cutover.lake.epochs.read_speed import measure_read_speed
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.attribution import causes, cells, dimension, proof
from cutover.reconcile.attribution.attribution import Attribution, attribute_causes, compare_users_tables
from cutover.reconcile.attribution.causes import UNEXPLAINED, Findings
from cutover.reconcile.attribution.log_rows import LogReader
from cutover.reconcile.comparison.batch_job import compare_jobs
from cutover.reconcile.comparison.layout import SharedTable, stage
from cutover.reconcile.comparison.sides import Sides, open_sides
from cutover.reconcile.early import answers, settlement
from cutover.reconcile.preconditions import checks, log_state, seal
from cutover.reconcile.preconditions.seal import Examined, SealError, SealEvidence
from cutover.reconcile.report import sections
from cutover.reconcile.result.codec import scalar
from cutover.reconcile.result.finding import (
    DIMENSION,
    AcceptedRows,
    Cause,
    Difference,
    Events,
    Expectation,
    Finding,
    LostRange,
    Rows,
    Seal,
    SealBreach,
    TablesRead,
    Windows,
)
from cutover.reconcile.result.lateness_text import UNKNOWN_SPEED, describe_replay
from cutover.reconcile.result.measurements import OpenAnswers
from cutover.reconcile.result.parts import JobTable, UsersTables
from cutover.reconcile.result.report import ComparisonOutcome
from cutover.reconcile.result.text import count_noun, format_iso_time
from cutover.reconcile.verdict import decision
from cutover.reconcile.verdict.decision import (
    NOTHING,
    Acceptance,
    VerdictInput,
    apply_rules,
    count_accepted_rows,
    describe_unfit,
)
from cutover.records.classes import Class
from cutover.records.watermark import find_closed_end


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRequest:
    """Range, cut and rules of a comparison."""

    start: datetime | None = None  # first window start, inclusive; None: all
    end: datetime | None = None  # exclusive
    epoch: int | None = None  # the batch run at this epoch's cut; None: the newest
    log: LogReader | None = None  # source of the records that cause a difference; None: the cluster of the settings
    acceptance: Acceptance = NOTHING  # rules by which people accept differences, at the time of the run
    parquet: Path | None = None  # where every row that differs is written to
    listed_rows: int = cells.ROWS_AT_MOST  # maximum number of rows in `differences`, unexplained ones first
    compares_jobs: bool = True  # also the tables of the team's own jobs; a self-test plants defects in ours alone
    looks_early: bool = False  # also compare the results shown before windows closed, and those of open windows


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    """Seal that does not hold, with the counts that were known by then."""

    seal: Seal
    tables: TablesRead = field(default_factory=TablesRead)
    windows: Windows = field(default_factory=Windows)
    events: Events = field(default_factory=Events)
    open_answers: OpenAnswers | None = None
    losses: tuple[LostRange, ...] = ()
    loss: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """Causes, counts and listed cells of two sides, before the verdict."""

    attribution: Attribution
    verdict: VerdictInput
    listed: tuple[Difference, ...]
    accepted: tuple[AcceptedRows, ...]
    events: Events
    open_answers: OpenAnswers | None
    users_tables: UsersTables | None

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of attribution and acceptance."""
        count = self.attribution.findings.plain.duplicates_expected
        copies = (f"The batch table has {count_noun(count, 'key')} more than once in a window.",) if count else ()
        return (*self.attribution.notes, *copies, *describe_unfit(self.accepted))


def compare_at_cut(lake: PipelineLake, request: ComparisonRequest) -> ComparisonOutcome:
    """Compare both sides at the cut of a batch run, or find why they cannot be compared.

    The log is checked before and after: sides that were compared while the log changed get no verdict.

    Args:
        lake: Pipeline to compare.
        request: Range, cut and rules of acceptance.
    """
    log_check = log_state.evaluate_log(lake)
    examined = seal.evaluate_seal(lake, epoch=request.epoch)
    if log_check.breach is not None:
        breaches = (log_check.breach, *examined.seal.breaches)
        refusal = _Refusal(seal=replace(examined.seal, holds=False, breaches=breaches), tables=examined.tables)
        return _build_refusal(lake.pipeline, request, refusal, None)
    return _Comparison(lake, request, log_check.note).run(examined)


@dataclass(frozen=True, slots=True)
class _Comparison:
    lake: PipelineLake
    request: ComparisonRequest
    unreachable: str | None  # why the log could not be checked before; None: it was

    def run(self, examined: Examined) -> ComparisonOutcome:
        """Compare the tables; a file that cannot be read is never a verdict on the data."""
        evidence = examined.evidence
        if evidence is None:
            return self._reject(_Refusal(seal=examined.seal, tables=examined.tables))
        try:
            with open_sides(self.lake, evidence, self.request.start, self.request.end) as sides:
                return self._compare(evidence, examined, sides)
        except SealError as error:
            breach = error.breach
        except LakeError as error:
            breach = seal.make_damage_breach(error)
        except duckdb.Error as error:
            tables = (evidence.epoch_log.table, evidence.batch)
            known_breach = seal.find_damaged_file(tables) or seal.find_overflow_breach(self.lake.name, error)
            if known_breach is None:
                raise
            breach = known_breach
        return self._reject(_Refusal(seal=_break_seal(examined.seal, breach), tables=examined.tables))

    def _reject(self, refusal: _Refusal) -> ComparisonOutcome:
        try:
            note = self._check_log_again()
        except SealError as error:
            broken = _Refusal(seal=_break_seal(refusal.seal, error.breach), tables=refusal.tables)
            return _build_refusal(self.lake.pipeline, self.request, broken, None)
        return _build_refusal(self.lake.pipeline, self.request, refusal, note)

    def _check_log_again(self) -> str | None:
        """Check the log after the comparison, and return why it could not be checked.

        A log never regains records that it lost, so one count of its records, after the comparison, is enough.

        Raises:
            SealError: The log is another one, or lacks records that the sides were computed from.
        """
        if self.unreachable is not None:
            return self.unreachable
        log_check = log_state.evaluate_log(self.lake, count=True)
        if log_check.breach is not None:
            raise SealError(log_check.breach)
        return log_check.note

    def _compare(self, evidence: SealEvidence, examined: Examined, opened: Sides) -> ComparisonOutcome:
        """Compare open sides.

        Raises:
            SealError: Causes can no longer be proven, or the log changed in the meantime.
        """
        lake, pipeline, request = self.lake, self.lake.pipeline, self.request
        jobs = compare_jobs(lake, evidence, opened) if request.compares_jobs else ()
        attribution = attribute_causes(lake, evidence, opened, request.log)
        proof.save_proofs(lake, attribution.proven)
        if attribution.unproven is not None:
            raise SealError(attribution.unproven)
        sides = attribution.sides
        if request.parquet is not None:
            cells.write_all_differences(sides, request.parquet)
        settlement.make_epoch_tables(
            sides.connection, pipeline, evidence.records, list_merged_spans(evidence.epoch_log.table)
        )
        differences, accepted = apply_rules(request.acceptance, cells.read_cells(sides, limit=request.listed_rows))
        measured = _Measured(
            attribution=attribution,
            verdict=_make_verdict_input(
                sides,
                attribution.findings,
                accepted=count_accepted_rows(accepted),
                merges=pipeline.window.merges,
                jobs=jobs,
            ),
            listed=differences,
            accepted=accepted,
            events=_count_events(sides, pipeline, evidence),
            users_tables=compare_users_tables(lake, sides, jobs),
            open_answers=self._examine_open_windows(evidence, sides),
        )
        if not measured.verdict.windows.compared:
            return self._reject(self._explain_nothing(evidence, examined, measured))
        return ComparisonOutcome(
            finding=self._build_finding(evidence, examined.seal, measured),
            tables=examined.tables,
            settlement=settlement.measure_settlement(sides, pipeline, evidence.records),
            early=answers.measure_early_answers(sides, pipeline, evidence) if request.looks_early else None,
            skipped_ranges=(*opened.skipped_ranges, *open_range(pipeline, evidence.watermark)),
        )

    def _build_finding(self, evidence: SealEvidence, intact: Seal, measured: _Measured) -> Finding:
        pipeline, sides, verdict = self.lake.pipeline, measured.attribution.sides, measured.verdict
        decided = decision.decide_verdict(verdict, pipeline.policy)
        return Finding(
            pipeline=pipeline.name,
            verdict=decided.verdict,
            exit_code=decided.exit_code,
            sentence=decision.describe_verdict(decided.verdict, verdict, decided.policy),
            runbook=decided.runbook,
            policy=decided.policy,
            seal=intact,
            dimensions=dimension.list_joined_versions(self.lake, evidence),
            from_=format_iso_time(self.request.start),
            to=format_iso_time(self.request.end),
            windows=verdict.windows,
            rows=verdict.rows,
            jobs=verdict.jobs,
            users_tables=measured.users_tables,
            events=measured.events,
            causes=measured.attribution.findings.causes,
            waterfall=sections.compute_waterfalls(sides, pipeline),
            window_series=sections.list_window_points(sides, pipeline),
            days=sections.calendar(sides),
            lateness_histogram=sections.bin_lateness(sides, pipeline),
            epochs_series=sections.list_epoch_points(evidence.records),
            open_answers=measured.open_answers,
            worst_keys=sections.worst_keys(sides, pipeline),
            apart=sections.measure_apart(sides),
            segments=sections.find_over_represented(sides, pipeline),
            samples=sections.list_excluded_records(sides, pipeline),
            behind=cells.read_records_behind(sides, pipeline, limit=self.request.listed_rows),
            differences=measured.listed,
            differences_total=cells.count_cells(sides),
            accepted=measured.accepted,
            contract=_list_expectations(evidence),
            losses=log_state.list_ranges(evidence.losses),
            loss=log_state.describe_losses(evidence.losses, sides.incomplete),
            notes=(*measured.notes, *_list_notes(pipeline, evidence), *filter(None, [self._check_log_again()])),
        )

    def _examine_open_windows(self, evidence: SealEvidence, sides: Sides) -> OpenAnswers | None:
        if not self.request.looks_early:
            return None
        log = self.request.log
        return answers.measure_open_windows(self.lake, evidence, sides, log=log, silent=self.unreachable)

    def _explain_nothing(self, evidence: SealEvidence, examined: Examined, measured: _Measured) -> _Refusal:
        """Explain why nothing was compared: no window is closed, or batch can vouch for none."""
        windows, events = measured.verdict.windows, measured.events
        if windows.incomplete_because:
            breach = checks.make_uncovered_breach(evidence.run.run_id, evidence.version, windows.incomplete_because)
        else:
            requested = checks.describe_range(self.request.start, self.request.end)
            breach = checks.make_no_window_breach(
                self.lake.pipeline, examined.seal, windows, events, requested=requested
            )
        return _Refusal(
            seal=_break_seal(examined.seal, breach),
            tables=examined.tables,
            windows=windows,
            events=events,
            open_answers=measured.open_answers,
            losses=log_state.list_ranges(evidence.losses),
            loss=log_state.describe_losses(evidence.losses, measured.attribution.sides.incomplete),
        )


def _build_refusal(
    pipeline: Pipeline, request: ComparisonRequest, refusal: _Refusal, note: str | None
) -> ComparisonOutcome:
    decided = decision.decide_not_comparable(refusal.seal, pipeline.policy)
    finding = Finding(
        pipeline=pipeline.name,
        verdict=decided.verdict,
        exit_code=decided.exit_code,
        sentence=decision.describe_broken_seal(refusal.seal),
        runbook=decided.runbook,
        policy=decided.policy,
        seal=refusal.seal,
        from_=format_iso_time(request.start),
        to=format_iso_time(request.end),
        windows=refusal.windows,
        events=refusal.events,
        causes={name: Cause() for name in (*map(str, causes.NAMES), UNEXPLAINED)},
        open_answers=refusal.open_answers,
        losses=refusal.losses,
        loss=refusal.loss,
        notes=() if note is None else (note,),
    )
    return ComparisonOutcome(finding=finding, tables=refusal.tables)


def _break_seal(intact: Seal, breach: SealBreach) -> Seal:
    return replace(intact, holds=False, breaches=(breach,))


def open_range(pipeline: Pipeline, watermark: int | None) -> tuple[Range, ...]:
    """Return the range in which windows that are still open at a watermark start, microseconds."""
    closed_end = find_closed_end(pipeline, watermark)
    if closed_end is None or closed_end < EARLIEST:
        return ((EARLIEST, FOREVER),)
    if closed_end >= LATEST:
        return ()
    return ((pipeline.window.start_after(closed_end), FOREVER),)


def _make_verdict_input(
    sides: Sides, findings: Findings, *, accepted: int, merges: bool, jobs: tuple[JobTable, ...]
) -> VerdictInput:
    bounds = f"""
        SELECT min(window_start), max(window_start) FROM
        (SELECT window_start FROM {SharedTable.EXPECTED} UNION ALL SELECT window_start FROM {stage(0)})
    """
    first_start, last_start = queries.fetch_row(sides.connection, bounds)
    touched = queries.fetch_number(sides.connection, f"SELECT count(*) FROM {SharedTable.TOUCHED}")
    on_time, with_late = _count_pairs(sides, 0), _count_pairs(sides, 1)
    plain = findings.plain
    streaming_rows = queries.fetch_number(sides.connection, f"SELECT count(*) FROM {stage(0)}")
    return VerdictInput(
        windows=Windows(
            compared=plain.groups,
            different=findings.different_windows,
            open=sides.open_windows,
            incomplete=sides.incomplete_windows,
            incomplete_because=dict(sides.incomplete),
            first=None if first_start is None else str(scalar(first_start)),
            last=None if last_start is None else str(scalar(last_start)),
            merges=merges,
        ),
        rows=Rows(
            compared=streaming_rows + plain.missing, missing=plain.missing, extra=plain.extra, changed=plain.changed
        ),
        explained=touched - findings.unexplained,
        unexplained=findings.unexplained,
        accepted=accepted,
        dimension=findings.causes[DIMENSION].rows,
        late=findings.causes[Class.LATE].events,
        late_share=decision.compute_late_share(with_late - on_time, on_time),
        causes=tuple(name for name, cause in findings.causes.items() if cause.rows and name != UNEXPLAINED),
        jobs=jobs,
    )


def _count_pairs(sides: Sides, number: int) -> int:
    """Count (record, window) pairs that a stage merged."""
    return queries.fetch_number(sides.connection, f"SELECT sum(_n) FROM {stage(number)}")


def _count_events(sides: Sides, pipeline: Pipeline, evidence: SealEvidence) -> Events:
    """Count records by class up to the cut.

    With sliding windows a record falls into several windows and may be late in some of them only: it then counts as
    late and as accepted.
    """
    pairs = evidence.books.up_to_cut
    counts = {name.value: pairs.get(name, 0) for name in Class}
    if pipeline.window.max_windows > 1:
        counts |= _count_distinct(sides, pipeline, evidence, counts)
    return Events(**counts, unknown_fields=sum(record.unknown for record in evidence.records))


def _count_distinct(sides: Sides, pipeline: Pipeline, evidence: SealEvidence, pairs: dict[str, int]) -> dict[str, int]:
    query = f"""
        SELECT _class, _partition, _offset, max(epoch_us(event_time)), count(*) FROM {SharedTable.LEDGER} GROUP BY ALL
    """
    records = sides.connection.execute(query).fetchall()
    counts = {name: sum(row[0] == name for row in records) for name in ("malformed", "future", "duplicate", "late")}
    late_everywhere = sum(row[0] == "late" and row[4] == len(pipeline.window.assign_windows(row[3])) for row in records)
    excluded = sum(counts[name] for name in ("malformed", "future", "duplicate")) + pairs["filtered"] + late_everywhere
    return {**counts, "accepted": sum(record.records for record in evidence.records) - excluded}


def _list_expectations(evidence: SealEvidence) -> tuple[Expectation, ...]:
    return tuple(
        Expectation(expectation=c.expectation, severity=c.severity, success=c.success, observed=c.observed)
        for c in evidence.run.contract
    )


def _list_notes(pipeline: Pipeline, evidence: SealEvidence) -> list[str]:
    """List what a reader should know about how the numbers came to be."""
    notes = list(filter(None, (_describe_imbalance(name, evidence) for name in Class)))
    busy = [record for record in evidence.records if record.records]
    if busy:
        notes.append(_describe_pace(pipeline, busy))
    return [
        *notes,
        *evidence.delivered.sentences,
        *dimension.list_dimension_notes(evidence),
        *log_state.list_loss_notes(evidence.losses),
    ]


def _describe_imbalance(name: Class, evidence: SealEvidence) -> str:
    """Return a note if the epochs' own counts of a class and the rows of the epoch log do not agree."""
    record_count = sum(record.counts.get(name, 0) for record in evidence.records)
    stored = evidence.books.up_to_cut.get(name, 0)
    return (
        ""
        if record_count == stored
        else f"The epochs counted {record_count:,} {name} rows, the epoch log holds {stored:,}."
    )


def _describe_pace(pipeline: Pipeline, busy: list[EpochRecord]) -> str:
    """Describe how fast the log was read: the larger the epochs, the fewer records are judged late."""
    typical, limit = round(median(record.records for record in busy)), pipeline.max_rows_per_epoch
    text = f"Lateness was judged in epochs of {count_noun(typical, 'record')} (median), at most {limit:,} an epoch."
    if pipeline.stream is not None:
        stream, has_ids = pipeline.stream, pipeline.source.record_id is not None
        is_complete = stream.output_mode == "complete"
        never = "in complete mode" if is_complete else "without state" if stream.row_per_record else None
        text = "Lateness was judged by the job's own watermarks"
        text = text if never is None or has_ids else f"No record is late for a job {never}"
        return f"{text}, in batches of {count_noun(typical, 'record')} (median)."
    reading = measure_read_speed(busy)
    if reading.is_replay is None:
        return f"{text} {UNKNOWN_SPEED}"
    return f"{text} {describe_replay(pipeline.name, reading.speed)}" if reading.is_replay else text
