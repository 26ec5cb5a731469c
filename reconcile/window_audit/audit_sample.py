"""One audit: draw, recompute by the batch path, compare, record. What is served is not touched.

The comparison is that of `cutover reconcile`, over the drawn windows alone: late rows that the ledger declares, and
whatever else has a proven cause, are no regression.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta

from cutover.clock import Clock
from cutover.definition.loading import acceptance_files
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.window_fn import AlignedWindowFn, Interval, list_windows
from cutover.errors import CutoverError, DefinitionError, LakeError
from cutover.events import log
from cutover.lake.control import versions
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.epochs.repeats import find_recompute
from cutover.lake.integrity import table_weights
from cutover.lake.serving import views
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import log_of, topics_of
from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.judge import judge
from cutover.reconcile.judgement.acceptance import Acceptance
from cutover.reconcile.judgement.audits import audit_record
from cutover.reconcile.judgement.audits.audit_record import AuditState, WindowAudit
from cutover.reconcile.request import ComparisonRequest
from cutover.reconcile.result.outcome import Difference, Reconciliation, Verdict
from cutover.reconcile.result.text import duration
from cutover.reconcile.watch.retention import retention, shortest
from cutover.reconcile.window_audit import power
from cutover.reconcile.window_audit.draw import draw
from cutover.reconcile.window_audit.power import DAY, SamplePlan
from cutover.records.closing import closing, find_closed_end
from cutover.settings import Settings
from cutover.timestamps import from_micros, parse_micros

SHOWN = 20
"""Rows and windows that an audit names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """The final windows that there are to draw from, and what is known of them."""

    version: Version
    since: int  # they end after this, microseconds
    until: int
    windows: tuple[Interval, ...]
    rows: Mapping[int, int]  # start -> (window, key) rows that are served; of every final window of `within_days`
    plan: SamplePlan

    @property
    def wanted(self) -> int:
        """Return how many to draw: as many as are planned for a day, for each day that has begun since."""
        days = max(1, -(-(self.until - self.since) // DAY))
        return min((self.plan.windows or 0) * days, len(self.windows))


def audit_windows(settings: Settings, pipeline: Pipeline, *, seed: int, clock: Clock) -> WindowAudit:
    """Look at a sample of the windows that became final since the last audit, and record what was found.

    Args:
        settings: Where log and lake are.
        pipeline: The definition.
        seed: Draws the sample.
        clock: For when it was made.

    Raises:
        DefinitionError: The policy cannot be met with these windows, rows or this retention; nothing was recorded.
        LakeError: No window has become final since the last audit, or a table cannot be read.
    """
    known = audit_record.list_audits(settings, pipeline)
    found = find_population(settings, pipeline, known)
    refuse_short_retention(settings, pipeline)
    if found.plan.refusal is not None:
        raise _make_refusal(pipeline, found.plan.refusal)
    if not found.windows:
        msg = f"Audit of `{pipeline.name}`: expected windows that became final since the last one, got none."
        raise LakeError(msg + f"\nHint: `cutover stream {pipeline.name} --status` says how far the stream is.")
    drawn = draw(found.windows, found.wanted, seed)
    judged = audit_record.list_judged(known, found.version.number)
    again = judged[-1].wrong if judged else ()
    chosen = sorted({*drawn, *(one for one in _find_again(pipeline, again) if one.end <= found.until)})
    result = _compare(settings, pipeline, chosen, clock)
    made = _describe(pipeline, found, drawn, chosen, result)
    before = audit_record.find_common_miss_chance(judged, found.until, pipeline.policy.audit)
    at = clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
    done = replace(made, at=at, seed=seed, power=1.0 - before * made.missed)
    audit_record.record(settings, pipeline, done)
    log.info("windows_audited", pipeline=pipeline.name, state=str(done.state), windows=len(chosen), seed=seed)
    return done


def find_population(settings: Settings, pipeline: Pipeline, known: Sequence[WindowAudit]) -> Population:
    """Return the windows that became final since the last audit that said something, at most `within_days` of them.

    Raises:
        DefinitionError: The windows are sessions or never become final.
        LakeError: Nothing is final yet, or a table cannot be read.
    """
    window, audit = pipeline.window, pipeline.policy.audit
    if not isinstance(window, AlignedWindowFn) or window.reach is None:
        raise _make_refusal(pipeline, "expected windows that lie where they lie and become final, got sessions or one")
    version = table_weights.refuse_no_epochs(settings, pipeline, versions.current(settings, pipeline))
    newest = EpochLog(version.uri).newest()
    until = find_closed_end(pipeline, None if newest is None else newest.watermark_after)
    rows = {} if until is None else _count_rows(settings, pipeline)
    if until is None or not rows:
        msg = f"Audit of `{pipeline.name}`: expected a final window, got none."
        raise LakeError(msg + "\nHint: a window is final once the watermark is past its end by allowed lateness.")
    first = max(min(rows), until - audit.within_days * DAY)
    all_final = tuple(list_windows(window, first, until))
    counts = [rows.get(one.start, 0) for one in all_final]
    judged = audit_record.list_judged(known, version.number)
    since = max(first, judged[-1].until) if judged else first
    return Population(
        version=version,
        since=since,
        until=until,
        windows=tuple(one for one in all_final if one.end > since),
        rows=rows,
        plan=power.plan_sample(audit, counts, max(until - first, 1) / DAY),
    )


def refuse_short_retention(settings: Settings, pipeline: Pipeline) -> None:
    """Refuse an audit of windows whose records leave the log before it looks at them.

    Raises:
        DefinitionError: Says how long the topics keep a record, and how long they must.
    """
    kept = shortest(retention(LogClient(settings).config(topic)) for topic in topics_of(log_of(pipeline)))
    lateness, reach = pipeline.lateness, pipeline.window.reach or 0
    age = closing(pipeline.window, lateness, reach) + lateness.out_of_orderness_micros + lateness.max_ahead_micros
    needed = timedelta(microseconds=age + DAY)
    if kept is not None and kept < needed:
        text = f"expected a log that keeps records for {duration(needed.total_seconds())} (a window, until it is final "
        text += f"and a day more), it keeps them for {duration(kept.total_seconds())}"
        raise _make_refusal(pipeline, text)


def _make_refusal(pipeline: Pipeline, why: str) -> DefinitionError:
    msg = f"Audit of `{pipeline.name}`: {why}."
    return DefinitionError(msg + "\nHint: `policy.audit` says what to find; a larger share or more days take less.")


def _count_rows(settings: Settings, pipeline: Pipeline) -> dict[int, int]:
    with views.connect(settings, pipeline) as connection:
        query = "SELECT epoch_us(window_start), count(*) FROM streaming WHERE _state <> 'open' GROUP BY 1"
        return {int(start): int(count) for start, count in connection.execute(query).fetchall()}


def _find_again(pipeline: Pipeline, starts: Sequence[int]) -> list[Interval]:
    return [one for start in starts for one in pipeline.window.intervals(start) if one.start == start]


def _compare(settings: Settings, pipeline: Pipeline, chosen: Sequence[Interval], clock: Clock) -> Reconciliation | str:
    """Return the comparison of the windows as the batch path makes them now with what the stream has; or why not."""
    rules = Acceptance(rules=acceptance_files.load(settings, pipeline), now=clock.now())
    with ExitStack() as stack:
        try:
            recompute = find_recompute()
            ranges = [(one.start, one.end) for one in chosen]
            apart = stack.enter_context(recompute(settings, pipeline, ranges, clock))
        except CutoverError as error:
            return str(error).splitlines()[0]
        # Windows before the first one drawn were not read: what the stream has of them is no row too many.
        first, behind = from_micros(chosen[0].start), from_micros(chosen[-1].start + 1)
        result, _ = judge(apart, pipeline, ComparisonRequest(start=first, end=behind, acceptance=rules))
        return result


def _describe(
    pipeline: Pipeline,
    found: Population,
    drawn: Sequence[Interval],
    chosen: Sequence[Interval],
    result: Reconciliation | str,
) -> WindowAudit:
    audit = pipeline.policy.audit
    made = WindowAudit(
        pipeline=pipeline.name,
        at="",
        state=AuditState.NOT_COMPARABLE,
        reason="",
        audit=audit,
        seed=0,
        since=found.since,
        until=found.until,
        population=len(found.windows),
        wanted=found.wanted,
        windows=tuple(one.start for one in chosen),
        judged=0,
        rows=0,
        missed=1.0,
        power=0.0,
        stream_version=found.version.number,
    )
    if isinstance(result, str):
        return replace(made, reason=result, runbook="NotComparable")
    if result.verdict is Verdict.NOT_COMPARABLE:
        return replace(made, reason=result.sentence, epoch=_epoch(result), runbook=result.runbook)
    return replace(_judge(made, found, drawn, result), audit=audit, epoch=_epoch(result))


def _epoch(result: Reconciliation) -> int:
    return -1 if result.seal.epoch is None else result.seal.epoch


def _judge(made: WindowAudit, found: Population, drawn: Sequence[Interval], result: Reconciliation) -> WindowAudit:
    """Return what a comparison says; of windows that could not be judged those with the most rows are left out."""
    counts = sorted(found.rows.get(one.start, 0) for one in drawn)
    held = sum(found.rows.get(start, 0) > 0 for start in made.windows)
    left_out = min(len(counts), max(0, held - result.windows.compared))
    judged = counts[: len(counts) - left_out]
    open_rows = result.policy.unexplained - result.policy.accepted
    is_wrong = open_rows > result.policy.max_unexplained
    wrong = [one for one in result.differences if one.cause == UNEXPLAINED]
    starts = sorted({parse_micros(one.window_start) for one in wrong if one.window_start})
    return replace(
        made,
        state=AuditState.REGRESSION if is_wrong else AuditState.AGREES,
        reason=result.sentence,
        judged=len(judged),
        rows=sum(judged),
        missed=power.find_sample_miss_chance(made.audit, judged),
        unexplained=open_rows,
        wrong=tuple(starts[:SHOWN]) if is_wrong else (),
        examples=tuple(map(_describe_row, wrong[:SHOWN])) if is_wrong else (),
        causes={name: cause.rows for name, cause in result.causes.items() if cause.rows},
        runbook="RetirementRegression" if is_wrong else None,
    )


def _describe_row(one: Difference) -> str:
    key = ", ".join(f"{name}={value}" for name, value in one.key.items())
    return f"{one.window_start} {key}: {one.measure} {one.kind}, served {one.streaming}, recomputed {one.batch}"
