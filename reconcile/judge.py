"""Two sides of a pipeline judged at one cut, or why they are not: pure of clocks, ids and reports."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import duckdb

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.window_fn import EARLIEST, FOREVER, LATEST
from cutover.errors import LakeError
from cutover.lake.batch_runs import Range
from cutover.lake.control import versions
from cutover.reconcile.attribution import causes
from cutover.reconcile.compare import compare
from cutover.reconcile.comparison import sides
from cutover.reconcile.judgement import verdict
from cutover.reconcile.preconditions import damage, log_origin, nothing_compared, seal
from cutover.reconcile.preconditions.seal import SealEvidence
from cutover.reconcile.request import ComparisonRequest
from cutover.reconcile.result.outcome import Cause, Reconciliation
from cutover.reconcile.result.seal import Seal, SealBreach
from cutover.records.closing import find_closed_end
from cutover.settings import Settings


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
    result, unjudged = _compare_tables(settings, pipeline, replace(asked, silent=before.note))
    # What a log has lost does not come back, so one count behind the comparison is enough.
    after = log_origin.ask(settings, pipeline, count=True) if before.note is None else before
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
    return replace(
        refused,
        windows=found.windows,
        events=found.events,
        open_answers=found.open_answers,
        losses=found.losses,
        loss=found.loss,
    )


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
    named = (("at or after", format_time(start)), ("before", format_time(end)))
    bounds = ((word, bound) for word, bound in named if bound)
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
        f"Hint: `cutover batch {evidence.version.pipeline}{versions.format_option(evidence.version.number)}` computes "
        "what is stale; of the others the log cannot tell."
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


def format_time(moment: datetime | None) -> str | None:
    """Return a time in ISO 8601, UTC; None for None."""
    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
