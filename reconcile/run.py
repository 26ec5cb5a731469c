"""One reconciliation, top to bottom: seal, digests, diff, causes, verdict, report, record."""

import contextlib
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from cutover import events
from cutover.clock import Clock, SystemClock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.loading import acceptance_files
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError, LakeError
from cutover.lake.batch_runs import Range
from cutover.lake.control import pins, versions
from cutover.lake.control.control_tables import OvertakenError
from cutover.lake.tables.run_memory import read_once
from cutover.lineage import runs
from cutover.metrics import tasks
from cutover.probe import Probe, silent
from cutover.reconcile import lineage
from cutover.reconcile.advisor import record as log_latenesses
from cutover.reconcile.attribution.log_rows import LogReader
from cutover.reconcile.audit import noise_record
from cutover.reconcile.cost import measure as cost
from cutover.reconcile.judge import format_time, judge
from cutover.reconcile.judgement import history, trend
from cutover.reconcile.judgement.acceptance import Acceptance
from cutover.reconcile.report import files
from cutover.reconcile.report.forms import exposition
from cutover.reconcile.request import ComparisonRequest
from cutover.reconcile.result.outcome import Reconciliation, Verdict
from cutover.reconcile.result.seal import Seal
from cutover.reconcile.selftest import record as selftests
from cutover.settings import Settings

TRIES = 20
"""Times that a row is decided anew since another run was recorded first."""


def _render_metrics(settings: Settings, pipeline: Pipeline, _: Reconciliation) -> str:
    """Return the metrics of the comparison that speaks for a pipeline now, which an older cut does not change."""
    newest = history.newest_first(settings, pipeline)[:1]
    found = [files.load(settings, pipeline.name, one.run_id) for one in newest]
    return exposition.render(one for one in found if one is not None)


@read_once()
@runs.tell_lineage("reconcile", lineage.find_touched)
@tasks.write_metrics("reconcile", _render_metrics)
def reconcile(  # noqa: PLR0913 -- a range, a cut, and what a test hands in
    settings: Settings,
    pipeline: Pipeline,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    epoch: int | None = None,
    probe: Probe = silent,
    clock: Clock | None = None,
    log: LogReader | None = None,
) -> Reconciliation:
    """Compare both sides of a pipeline at the cut of a batch run, write the report, record the run.

    Args:
        settings: Where lake, log and reports are.
        pipeline: The definition.
        start: First window start to compare, inclusive; None: all.
        end: Window starts before this one only.
        epoch: The batch run at this epoch's cut; None: the newest.
        probe: Told `report.rendered` and `verdict.recorded`.
        clock: The wall clock.
        log: What is asked for the records behind a difference; None: the cluster of the settings.

    Returns:
        The comparison: `.verdict`, `.exit_code`, `.report_path` (relative to the reports folder).

    Raises:
        DefinitionError: The range is empty.
    """
    clock = clock or SystemClock()
    at, began = clock.now(), clock.monotonic()
    _check_range(start, end)
    rules = acceptance_files.load(settings, pipeline)
    acceptance = Acceptance(rules=rules, now=history.settle_now(settings, pipeline, at) if rules.rules else at)
    draft = files.make_draft_path(settings, pipeline.name)
    asked = ComparisonRequest(
        start=start, end=end, epoch=epoch, log=log, acceptance=acceptance, parquet=draft, looks_early=True
    )
    found, unjudged = judge(settings, pipeline, asked)
    tested = selftests.newest(settings, pipeline)
    made = replace(
        found,
        run_id=f"{at.astimezone(UTC):%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}",
        at=format_time(at) or "",
        self_test=None if tested is None else tested.rates,
        log_lateness=log_latenesses.newest(settings, pipeline),
        noise=noise_record.find_level(settings, pipeline),
        advice=log_latenesses.find_advice(settings, pipeline),
        cost=cost.measure_if_readable(settings, pipeline, found),
        from_=format_time(start),
        to=format_time(end),
        seconds=round(clock.monotonic() - began, 3),
    )
    try:
        result = _record_result(settings, pipeline, made, at, unjudged, probe=probe, table=draft)
    finally:
        draft.unlink(missing_ok=True)
    _release_cut(settings, pipeline, result.seal, clock)
    probe("verdict.recorded", -1 if result.seal.epoch is None else result.seal.epoch)
    _log(result)
    return result


def _check_range(start: datetime | None, end: datetime | None) -> None:
    if start is not None and end is not None and start >= end:
        msg = f"Range of windows: expected a start before an end, got {format_time(start)} and {format_time(end)}."
        raise DefinitionError(msg)


def _record_result(  # noqa: PLR0913 -- what is recorded, and beside what
    settings: Settings,
    pipeline: Pipeline,
    made: Reconciliation,
    at: datetime,
    unjudged: Sequence[Range],
    *,
    probe: Probe,
    table: Path,
) -> Reconciliation:
    """Write the report, then the run's row, then let `latest.html` show what speaks for the pipeline now.

    Of a repeat the report of the first time is written again: it is the same but for how often it was found.
    """
    serving = versions.current(settings.model_copy(update={"stream_version": None}), pipeline)
    written: set[str] = set()
    for _ in range(TRIES):
        placed = history.find_entry(
            settings,
            made,
            fingerprint=result_fingerprint(pipeline),
            version=None if serving is None else serving.number,
            at=at,
            unjudged=unjudged,
        )
        lives = trend.list_lives(settings, pipeline, made, placed)
        result = _place_result(replace(made, lives=lives), placed, has_table=table.is_file())
        table = files.write(settings, result, table=table, probe=probe).with_suffix(".parquet")
        written.add(result.run_id)
        with contextlib.suppress(OvertakenError):
            history.record(settings, result, placed)
            files.remove(settings, result.pipeline, (written & {made.run_id}) - {result.run_id})
            files.show_latest(settings, result.pipeline, lambda: history.find_present(settings, pipeline))
            return result
    msg = f"History of `{pipeline.name}`: expected to record a comparison, others were faster {TRIES} times."
    raise LakeError(msg + "\nHint: compare again once they are done.")


def _place_result(made: Reconciliation, placed: history.HistoryEntry, *, has_table: bool) -> Reconciliation:
    """Return the comparison as its line in the history has it: under the id and time of the first that found this."""
    line = placed.made
    stem = f"{made.pipeline}/{line.run_id}"
    repeats = line.times - 1
    return replace(
        made,
        run_id=line.run_id,
        at=format_time(line.first) or "",
        repeats=repeats,
        repeated_at=made.at if repeats else None,
        speaks_for=placed.speaks_for,
        trend=trend.trend(placed),
        report=f"{stem}.json",
        page=f"{stem}.html",
        parquet=f"{stem}.parquet" if has_table and made.verdict is not Verdict.NOT_COMPARABLE else None,
    )


def _release_cut(settings: Settings, pipeline: Pipeline, found: Seal, clock: Clock) -> None:
    """Release the cut that the batch run held for this comparison; what was refused may be tried again."""
    version = versions.current(settings, pipeline)
    if found.holds and version is not None and found.epoch is not None and found.batch_run is not None:
        pins.release(settings, version, found.epoch, holder=pins.batch_holder(found.batch_run), now=clock.now())


def _log(result: Reconciliation) -> None:
    events.log.info(
        "reconciled",
        pipeline=result.pipeline,
        run_id=result.run_id,
        verdict=result.verdict.value,
        exit_code=result.exit_code,
        epoch=result.seal.epoch,
        repeats=result.repeats,
        speaks_for=result.speaks_for,
        windows=result.windows.compared,
        windows_different=result.windows.different,
        windows_open=result.windows.open,
        rows=result.rows.compared,
        causes={name: cause.rows for name, cause in result.causes.items()},
        late_share=round(result.policy.late_share, 9),
        report=result.report_path,
        runbook=result.runbook,
        seconds=result.seconds,
    )
