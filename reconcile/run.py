"""One reconciliation, top to bottom: seal, digests, diff, causes, verdict, report, record."""

import contextlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import duckdb

from cutover import events
from cutover.clock import Clock, SystemClock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.loading import acceptance_files
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.window_fn import EARLIEST, FOREVER, LATEST
from cutover.errors import DefinitionError, LakeError
from cutover.lake.batch_runs import Range
from cutover.lake.control import pins, versions
from cutover.lake.control.control_tables import OvertakenError
from cutover.lake.tables import checksums
from cutover.probe import Probe, silent
from cutover.reconcile.attribution import causes
from cutover.reconcile.attribution.log_rows import LogReader
from cutover.reconcile.compare import ComparisonRequest, compare
from cutover.reconcile.comparison import sides
from cutover.reconcile.judgement import history, verdict
from cutover.reconcile.judgement.acceptance import Acceptance
from cutover.reconcile.preconditions import damage, log_origin, nothing_compared, seal
from cutover.reconcile.preconditions.seal import SealEvidence
from cutover.reconcile.report import files
from cutover.reconcile.result.outcome import Cause, Reconciliation, Seal, SealBreach
from cutover.records.closing import find_closed_end
from cutover.settings import Settings

TRIES = 20
"""Times that a row is decided anew since another run was recorded first."""


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
    with checksums.once():
        acceptance = Acceptance(rules=acceptance_files.load(settings, pipeline), now=at)
        asked = ComparisonRequest(start=start, end=end, epoch=epoch, log=log, acceptance=acceptance)
        found, unjudged = judge(settings, pipeline, asked)
    made = replace(
        found,
        run_id=f"{at.astimezone(UTC):%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}",
        at=_iso(at) or "",
        from_=_iso(start),
        to=_iso(end),
        seconds=round(clock.monotonic() - began, 3),
    )
    result = _record_result(settings, pipeline, made, at, unjudged, probe)
    _release_cut(settings, pipeline, result.seal, clock)
    probe("verdict.recorded", -1 if result.seal.epoch is None else result.seal.epoch)
    _log(result)
    return result


def _check_range(start: datetime | None, end: datetime | None) -> None:
    if start is not None and end is not None and start >= end:
        msg = f"Range of windows: expected a start before an end, got {_iso(start)} and {_iso(end)}."
        raise DefinitionError(msg)


def judge(settings: Settings, pipeline: Pipeline, asked: ComparisonRequest) -> tuple[Reconciliation, tuple[Range, ...]]:
    """Return the comparison, or why there is none, and the closed windows that batch did not vouch for.

    The log is asked before it and behind it: what was compared while it changed is no verdict. Nothing in it depends on
    the clock (rules of acceptance come with the time that ends them) or on the order in which an engine reads rows: the
    same comparison gives the same bytes.
    """
    before = log_origin.ask(settings, pipeline)
    if before.breach is not None:
        found = seal.examine(settings, pipeline, epoch=asked.epoch).seal
        return _make_refusal(pipeline, replace(found, holds=False, breaches=(before.breach, *found.breaches))), ()
    result, unjudged = _compare_tables(settings, pipeline, asked)
    after = log_origin.ask(settings, pipeline) if before.note is None else before
    if after.breach is not None:
        return _make_refusal(pipeline, _break_seal(result.seal, after.breach)), ()
    return result if after.note is None else replace(result, notes=(*result.notes, after.note)), unjudged


def _compare_tables(
    settings: Settings, pipeline: Pipeline, asked: ComparisonRequest
) -> tuple[Reconciliation, tuple[Range, ...]]:
    """Return the comparison of what the tables hold, as `judge` does.

    A file that cannot be read is never a verdict on the data.
    """
    examined = seal.examine(settings, pipeline, epoch=asked.epoch)
    evidence = examined.evidence
    if evidence is None:
        return _make_refusal(pipeline, examined.seal), ()
    try:
        with sides.open_sides(settings, pipeline, evidence, asked.start, asked.end) as opened:
            found = compare(settings, pipeline, evidence, examined.seal, opened, asked)
            unjudged = opened.unjudged
    except seal.SealError as error:
        return _make_refusal(pipeline, _break_seal(examined.seal, error.breach)), ()
    except LakeError as error:
        return _make_refusal(pipeline, _break_seal(examined.seal, damage.breach_of(error))), ()
    except duckdb.Error as error:
        breach = damage.find_damage((evidence.epoch_log.table, evidence.batch)) or damage.beyond(pipeline.name, error)
        if breach is None:
            raise
        return _make_refusal(pipeline, _break_seal(examined.seal, breach)), ()
    if not found.windows.compared:
        return _make_empty(pipeline, evidence, found, _format_range(asked.start, asked.end)), ()
    return found, (*unjudged, *open_range(pipeline, evidence.watermark))


def _make_empty(pipeline: Pipeline, evidence: SealEvidence, found: Reconciliation, asked: str | None) -> Reconciliation:
    """Return that nothing was compared: no window is closed, or batch vouches for none."""
    reasons = found.windows.incomplete_because
    breach = _make_uncovered_breach(evidence, reasons) if reasons else nothing_compared.breach(found, asked=asked)
    refused = _make_refusal(pipeline, _break_seal(found.seal, breach))
    return replace(refused, windows=found.windows, events=found.events, losses=found.losses, loss=found.loss)


def open_range(pipeline: Pipeline, watermark: int | None) -> tuple[Range, ...]:
    """Return the stretch in which windows that are not closed at a watermark begin, microseconds."""
    last = find_closed_end(pipeline, watermark)
    if last is None or last < EARLIEST:
        return ((EARLIEST, FOREVER),)
    if last >= LATEST:
        return ()
    return ((pipeline.window.start_after(last), FOREVER),)


def _format_range(start: datetime | None, end: datetime | None) -> str | None:
    """Return a range that was asked for in words; None if none was."""
    bounds = ((word, bound) for word, bound in (("at or after", _iso(start)), ("before", _iso(end))) if bound)
    return " and ".join(f"{word} {bound}" for word, bound in bounds) or None


def _make_uncovered_breach(evidence: SealEvidence, windows: Mapping[str, int]) -> SealBreach:
    found = ", ".join(f"{count:,} {reason}" for reason, count in windows.items())
    text = f"Batch run {evidence.run.run_id}: expected closed windows that can be judged, got none of "
    text += (
        f"{sum(windows.values()):,}: {found} (stale: changed since batch computed it; expired: records have left the "
    )
    text += "log; lost: the stream missed records too; doubled: it delivered some twice; "
    text += "unread: some went before this version of the stream began). "
    text += (
        f"Hint: `cutover batch {evidence.version.pipeline}` computes what is stale; of the others the log cannot tell."
    )
    return SealBreach(code="uncovered", message=text, runbook="NotComparable")


def _break_seal(found: Seal, breach: SealBreach) -> Seal:
    return replace(found, holds=False, breaches=(breach,))


def _make_refusal(pipeline: Pipeline, found: Seal) -> Reconciliation:
    decision = verdict.decide_broken_seal(found, pipeline.policy)
    return Reconciliation(
        pipeline=pipeline.name,
        run_id="",
        at="",
        verdict=decision.verdict,
        exit_code=decision.exit_code,
        sentence=verdict.sentence_broken(found),
        seal=found,
        causes={name: Cause() for name in (*map(str, causes.NAMES), causes.UNEXPLAINED)},
        policy=decision.policy,
        runbook=decision.runbook,
    )


def _record_result(
    settings: Settings,
    pipeline: Pipeline,
    made: Reconciliation,
    at: datetime,
    unjudged: Sequence[Range],
    probe: Probe,
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
        result = _place_result(made, placed)
        files.write(settings, result, probe=probe)
        written.add(result.run_id)
        with contextlib.suppress(OvertakenError):
            history.record(settings, result, placed)
            files.remove(settings, result.pipeline, (written & {made.run_id}) - {result.run_id})
            files.show_latest(settings, result.pipeline, lambda: history.find_present(settings, pipeline))
            return result
    msg = f"History of `{pipeline.name}`: expected to record a comparison, others were faster {TRIES} times."
    raise LakeError(msg + "\nHint: compare again once they are done.")


def _place_result(made: Reconciliation, placed: history.HistoryEntry) -> Reconciliation:
    """Return the comparison as its line in the history has it: under the id and time of the first that found this."""
    line = placed.made
    stem = f"{made.pipeline}/{line.run_id}"
    repeats = line.times - 1
    return replace(
        made,
        run_id=line.run_id,
        at=_iso(line.first) or "",
        repeats=repeats,
        repeated_at=made.at if repeats else None,
        speaks_for=placed.speaks_for,
        report=f"{stem}.json",
        page=f"{stem}.html",
    )


def _release_cut(settings: Settings, pipeline: Pipeline, found: Seal, clock: Clock) -> None:
    """Release the cut that the batch run held for this comparison; what was refused may be tried again."""
    version = versions.current(settings, pipeline)
    if found.holds and version is not None and found.epoch is not None and found.batch_run is not None:
        pins.release(settings, version, found.epoch, holder=pins.batch_holder(found.batch_run), now=clock.now())


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


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
