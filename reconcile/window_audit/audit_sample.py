"""One audit: draw, recompute by the batch path, compare, record. What is served is not touched.

The comparison is that of `cutover reconcile`, over the drawn windows alone: late rows that the ledger declares, and
whatever else has a proven cause, are no regression.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from cutover.clock import Clock
from cutover.definition.loading import acceptance_files
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.window_fn import Interval
from cutover.errors import CutoverError
from cutover.events import log
from cutover.lake.epochs.repeats import find_recompute
from cutover.lineage import runs
from cutover.reconcile import lineage
from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.compare import compare_at_cut
from cutover.reconcile.request import ComparisonRequest
from cutover.reconcile.result.finding import Difference, Finding, Verdict
from cutover.reconcile.verdict import history
from cutover.reconcile.verdict.acceptance import Acceptance, place_of
from cutover.reconcile.verdict.audits import audit_record, power
from cutover.reconcile.verdict.audits.audit_record import AuditState, WindowAudit
from cutover.reconcile.window_audit import population
from cutover.reconcile.window_audit.draw import draw
from cutover.reconcile.window_audit.population import Population
from cutover.settings import Settings
from cutover.timestamps import from_micros, parse_micros

SHOWN = 20
"""Rows that an audit names."""


@runs.tell_lineage("audit", lineage.find_touched_by_audit)
def audit_windows(settings: Settings, pipeline: Pipeline, *, seed: int, clock: Clock) -> WindowAudit:
    """Look at a sample of the windows that became final since the last audit, and record what was found, if any did.

    Args:
        settings: Where log and lake are.
        pipeline: The definition.
        seed: Draws the sample.
        clock: For when it was made.

    Raises:
        DefinitionError: The policy cannot be met with these windows, rows or this retention; nothing was recorded.
        LakeError: No window is final yet, or a table cannot be read.
    """
    audits = audit_record.list_audits(settings, pipeline)
    found = population.find_population(settings, pipeline, audits)
    drawn = draw(found.windows, found.wanted, seed)
    judged = audit_record.list_judged(audits, found.version.number)
    chosen = sorted({*drawn, *(one for one in _find_again(pipeline, found.again) if one.end <= found.until)})
    if chosen or found.windows:
        population.refuse_unreachable(settings, pipeline, found)
    result = _compare(settings, pipeline, chosen, clock) if chosen else None
    made = _describe(pipeline, found, drawn, chosen, result)
    chance = audit_record.find_common_miss_chance(judged, found.until, found.plan.audit)
    at = clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
    done = replace(made, at=at, seed=seed, power=1.0 - chance * made.missed)
    if result is None:
        return done
    audit_record.record(settings, pipeline, done)
    log.info("windows_audited", pipeline=pipeline.name, state=str(done.state), windows=len(chosen), seed=seed)
    return done


def _find_again(pipeline: Pipeline, starts: Sequence[int]) -> list[Interval]:
    return [one for start in starts for one in pipeline.window.assign_windows(start) if one.start == start]


def _compare(settings: Settings, pipeline: Pipeline, intervals: Sequence[Interval], clock: Clock) -> Finding | str:
    """Return the comparison of the windows as the batch path makes them now with what the stream has; or why not."""
    now = history.settle_now(settings, pipeline, clock.now())
    rules = Acceptance(rules=acceptance_files.load(settings, pipeline), now=now)
    with ExitStack() as stack:
        try:
            recompute = find_recompute()
            ranges = [(interval.start, interval.end) for interval in intervals]
            apart = stack.enter_context(recompute(settings, pipeline, ranges, clock))
        except CutoverError as error:
            return str(error).splitlines()[0]
        # Windows before the first one drawn were not read: what the stream has of them is no row too many.
        first, behind = from_micros(intervals[0].start), from_micros(intervals[-1].start + 1)
        return compare_at_cut(apart, pipeline, ComparisonRequest(start=first, end=behind, acceptance=rules)).finding


def _describe(
    pipeline: Pipeline,
    population: Population,
    intervals: Sequence[Interval],
    chosen: Sequence[Interval],
    result: Finding | str | None,
) -> WindowAudit:
    audit = WindowAudit(
        pipeline=pipeline.name,
        at="",
        state=AuditState.NOT_COMPARABLE,
        reason="",
        audit=population.plan.audit,
        seed=0,
        since=population.since,
        until=population.until,
        population=len(population.windows),
        wanted=population.wanted,
        windows=tuple(one.start for one in chosen),
        judged=0,
        rows=0,
        missed=1.0,
        power=0.0,
        stream_version=population.version.number,
    )
    if result is None:
        return replace(audit, state=AuditState.NOTHING_NEW, reason="No window became final since the last audit.")
    if isinstance(result, str):
        return replace(audit, reason=result, runbook="NotComparable")
    if result.verdict is Verdict.NOT_COMPARABLE:
        return replace(audit, reason=result.sentence, epoch=_epoch(result), runbook=result.runbook)
    return replace(_judge(audit, population, intervals, result), epoch=_epoch(result))


def _epoch(result: Finding) -> int:
    return -1 if result.seal.epoch is None else result.seal.epoch


def _judge(audit: WindowAudit, population: Population, intervals: Sequence[Interval], result: Finding) -> WindowAudit:
    """Return what a comparison says; of windows that could not be judged those with the most rows are left out.

    Which they are is not known. So where windows are looked at again that were wrong, all have to be judged.
    """
    counts = sorted(population.rows.get(interval.start, 0) for interval in intervals)
    held = sum(population.rows.get(start, 0) > 0 for start in audit.windows)
    left_out = min(len(counts), max(0, held - result.windows.compared))
    not_final = len(set(population.again) - set(audit.windows))
    if not_final:
        missing = f"{not_final} of {len(population.again)} windows that were wrong are not final in this version."
        return replace(audit, reason=missing, runbook="RetirementRegression")
    if population.again and held > result.windows.compared:
        missing = f"{held - result.windows.compared} of {held} windows cannot be computed again, and some were wrong."
        return replace(audit, reason=missing, runbook="RetirementRegression")
    judged = counts[: len(counts) - left_out]
    open_rows = result.policy.unexplained - result.policy.accepted
    is_wrong = open_rows > result.policy.max_unexplained
    unexplained = [difference for difference in result.differences if UNEXPLAINED in difference.cause]
    wrong = [one for one in unexplained if one.accepted_by is None]
    are_listed = len({place_of(one) for one in unexplained}) == result.causes[UNEXPLAINED].rows
    starts = {parse_micros(one.window_start) for one in wrong if one.window_start}
    return replace(
        audit,
        state=AuditState.REGRESSION if is_wrong else AuditState.AGREES,
        reason=result.sentence,
        judged=len(judged),
        rows=sum(judged),
        missed=power.find_sample_miss_chance(audit.audit, judged),
        unexplained=open_rows,
        wrong=(tuple(sorted(starts)) if are_listed else audit.windows) if is_wrong else (),
        examples=tuple(map(_describe_row, wrong[:SHOWN])) if is_wrong else (),
        causes={name: cause.rows for name, cause in result.causes.items() if cause.rows},
        runbook="RetirementRegression" if is_wrong else None,
    )


def _describe_row(one: Difference) -> str:
    key = ", ".join(f"{name}={value}" for name, value in one.key.items())
    return f"{one.window_start} {key}: {one.measure} {one.kind}, served {one.streaming}, recomputed {one.batch}"
