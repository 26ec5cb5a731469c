"""One run of `cutover reconcile`: compare, find the place in the history, write the report, record the run."""

import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cutover import acceptance_files, events, metrics
from cutover.clock import Clock, Probe, SystemClock, silent
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.errors import DefinitionError, LakeError
from cutover.lake.control import pins, versions
from cutover.lake.control.served import read_own_tables
from cutover.lake.journal import SequenceConflictError
from cutover.lake.tables.checksums import read_once
from cutover.lineage import runs
from cutover.lineage.runs import RunDatasets
from cutover.pipeline_lake import PipelineLake, control_uri
from cutover.reconcile import cost, journal_rows
from cutover.reconcile.attribution.log_rows import LogReader
from cutover.reconcile.audit import noise
from cutover.reconcile.compare import ComparisonRequest, compare_at_cut
from cutover.reconcile.report import files, sections
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import ComparisonOutcome, Report, RunMetadata
from cutover.reconcile.result.text import format_iso_time
from cutover.reconcile.verdict import history
from cutover.reconcile.verdict.decision import Acceptance

if TYPE_CHECKING:
    from openlineage.client.event_v2 import InputDataset

TRIES = 20
"""Attempts to record a run; each one that another run overtakes finds its place in the history again."""


def _render_metrics(lake: PipelineLake, _: Report) -> str:
    """Render the metrics of the pipeline's current comparison; a comparison at an older cut never replaces it."""
    current = history.list_current_first(lake)[:1]
    return files.render_prometheus(files.read_report(lake.settings, lake.name, line.run_id) for line in current)


@read_once()
def find_touched_by_comparison(lake: PipelineLake, report: Report) -> RunDatasets:
    """Return the log up to the cut and both tables, at the versions compared, and the verdict."""
    from cutover.lineage import datasets  # noqa: PLC0415 -- its client takes a second to load: only if lineage is configured

    facets = {"runId": report.run.run_id, "epoch": report.finding.seal.epoch, "verdict": str(report.finding.verdict)}
    table = datasets.make_output_table(control_uri(lake.settings, "reconciliations"), None)
    return RunDatasets(inputs=tuple(_list_lineage_inputs(lake, report)), outputs=(table,), facets=facets)


def _list_lineage_inputs(lake: PipelineLake, report: Report) -> "Iterator[InputDataset]":
    from cutover.lineage import datasets  # noqa: PLC0415 -- its client takes a second to load: only if lineage is configured

    for log in report.finding.seal.logs:
        read = {int(p): (None, end) for p, end in log.cut.items()}
        yield from datasets.make_input_topics(lake.settings, log.topic, log.topic_id, log.cluster_id, read)
    version, tables = report.finding.seal.stream_version, report.run.tables
    if version is not None:
        yield datasets.make_input_table(lake.stream_uri(version), tables.stream)
    if tables.batch is not None:
        yield datasets.make_input_table(lake.batch_uri(), tables.batch)


@runs.emit_lineage("reconcile", find_touched_by_comparison)
@metrics.write_metrics("reconcile", _render_metrics)
def run_reconciliation(  # noqa: PLR0913 -- a range, a cut, and what a test passes in
    lake: PipelineLake,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    epoch: int | None = None,
    probe: Probe = silent,
    clock: Clock | None = None,
    log: LogReader | None = None,
) -> Report:
    """Compare both sides of a pipeline at the cut of a batch run, write the report, record the run.

    Args:
        lake: Pipeline to compare.
        start: First window start to compare, inclusive; None: all.
        end: Window starts before this one only.
        epoch: The batch run at this epoch's cut; None: the newest.
        probe: Receives `report.rendered` and `verdict.recorded`.
        clock: The wall clock.
        log: Reads the records behind a difference; None: the cluster of the settings.

    Returns:
        The report: `.finding.verdict`, `.finding.exit_code`, `.run.report_path` (relative to the reports folder).

    Raises:
        DefinitionError: The range is empty.
    """
    clock = clock or SystemClock()
    at, started = clock.now(), clock.monotonic()
    _check_range(start, end)
    rules = acceptance_files.load_acceptance_rules(lake)
    acceptance = Acceptance(rules=rules, now=history.find_rule_time(lake, at) if rules.rules else at)
    draft = files.make_draft_path(lake.settings, lake.name)
    request = ComparisonRequest(
        start=start, end=end, epoch=epoch, log=log, acceptance=acceptance, parquet=draft, looks_early=True
    )
    try:
        outcome = compare_at_cut(lake, request)
        run = _Run(lake=lake, outcome=outcome, at=at, parquet=draft, probe=probe)
        report = run.record(seconds=clock.monotonic() - started)
    finally:
        draft.unlink(missing_ok=True)
    _release_cut(lake, outcome, clock)
    probe("verdict.recorded", -1 if outcome.finding.seal.epoch is None else outcome.finding.seal.epoch)
    _log(report)
    return report


def _check_range(start: datetime | None, end: datetime | None) -> None:
    if start is not None and end is not None and start >= end:
        times = f"{format_iso_time(start)} and {format_iso_time(end)}"
        msg = f"Range of windows: expected a start before an end, got {times}."
        raise DefinitionError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """Run whose comparison is done and is to be reported and recorded."""

    lake: PipelineLake
    outcome: ComparisonOutcome
    at: datetime
    parquet: Path  # of all rows that differ
    probe: Probe

    def record(self, *, seconds: float) -> Report:
        """Write the report, then the run's row, then make `latest.html` the page of the current comparison.

        A run that repeats a finding writes the report of the first run again, with the number of repeats.

        Raises:
            LakeError: Other runs were recorded first, `TRIES` times.
        """
        settings, name = self.lake.settings, self.lake.name
        run_id = f"{self.at.astimezone(UTC):%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"
        serving = versions.find_current_version(self.lake.with_settings(stream_version=None))
        table, written_reports = self.parquet, set[str]()
        for _ in range(TRIES):
            entry = history.find_entry(
                settings,
                self.outcome,
                run_id=run_id,
                fingerprint=result_fingerprint(self.lake.pipeline),
                version=None if serving is None else serving.number,
                at=self.at,
            )
            report = self._build_report(entry, seconds=seconds, has_table=table.is_file())
            table = files.write_report(settings, report, table=table, probe=self.probe).with_suffix(".parquet")
            written_reports.add(report.run.run_id)
            with contextlib.suppress(SequenceConflictError):
                history.record_comparison(settings, self.outcome, entry, report.run.report_path)
                files.remove_reports(settings, name, (written_reports & {run_id}) - {report.run.run_id})
                files.show_latest(settings, name, lambda: history.find_current_comparison(self.lake))
                return report
        msg = f"History of `{name}`: expected to record a comparison, others were faster {TRIES} times."
        raise LakeError(msg + "\nHint: compare again once they are done.")

    def _build_report(self, entry: history.HistoryEntry, *, seconds: float, has_table: bool) -> Report:
        lake, finding = self.lake, self.outcome.finding
        self_test = journal_rows.find_newest_self_test(lake)
        return Report(
            finding=finding,
            run=self._describe_run(entry, seconds=seconds, has_table=has_table),
            settlement=self.outcome.settlement,
            early=self.outcome.early,
            lives=sections.list_lives(lake, finding, entry),
            trend=sections.trend(entry),
            self_test=None if self_test is None else self_test.rates,
            log_lateness=journal_rows.find_newest_lateness(lake),
            noise=noise.find_level(lake),
            advice=journal_rows.find_advice(lake),
            cost=cost.measure_if_readable(lake, self.outcome),
            own_tables=read_own_tables(lake),
        )

    def _describe_run(self, entry: history.HistoryEntry, *, seconds: float, has_table: bool) -> RunMetadata:
        """Describe the run under the id and time of the first run with this finding, as the history has it."""
        line = entry.comparison
        stem, repeats = f"{self.lake.name}/{line.run_id}", line.times - 1
        is_comparable = self.outcome.finding.verdict is not Verdict.NOT_COMPARABLE
        return RunMetadata(
            run_id=line.run_id,
            at=format_iso_time(line.first_recorded) or "",
            seconds=round(seconds, 3),
            tables=self.outcome.tables,
            scope_note=entry.scope_note,
            repeats=repeats,
            repeated_at=format_iso_time(self.at) if repeats else None,
            report=f"{stem}.json",
            page=f"{stem}.html",
            parquet=f"{stem}.parquet" if has_table and is_comparable else None,
        )


def _release_cut(lake: PipelineLake, outcome: ComparisonOutcome, clock: Clock) -> None:
    """Release the cut that the batch run pinned for this comparison; one that could not compare may run again."""
    version, seal, batch_run = versions.find_current_version(lake), outcome.finding.seal, outcome.tables.batch_run
    if seal.holds and version is not None and seal.epoch is not None and batch_run is not None:
        pins.release_pin(lake.settings, version, seal.epoch, holder=pins.name_batch_holder(batch_run), now=clock.now())


def _log(report: Report) -> None:
    finding, run = report.finding, report.run
    events.log.info(
        "reconciled",
        pipeline=finding.pipeline,
        run_id=run.run_id,
        verdict=finding.verdict.value,
        exit_code=finding.exit_code,
        epoch=finding.seal.epoch,
        repeats=run.repeats,
        scope_note=run.scope_note,
        windows=finding.windows.compared,
        windows_different=finding.windows.different,
        windows_open=finding.windows.open,
        rows=finding.rows.compared,
        causes={name: cause.rows for name, cause in finding.causes.items()},
        late_share=round(finding.policy.late_share, 9),
        report=run.report_path,
        runbook=finding.runbook,
        seconds=run.seconds,
    )
