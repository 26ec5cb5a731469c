"""Audit of a sample of windows: draw, recompute by the batch path, compare, record. The served tables do not change.

The sample is a pure function of the seed and of the population of windows, and gives a daily audit its power under the
policy. The comparison is that of `cutover reconcile`, limited to the drawn windows: late rows that the ledger declares,
and other differences with a proven cause, are not regressions. The terminal and the task's log show the same
descriptions.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise

import duckdb

from cutover import acceptance_files
from cutover.clock import Clock
from cutover.counts import choose_form
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.policy import Audit, Stage
from cutover.definition.windows.window_fn import AlignedWindowFn, Interval, list_windows
from cutover.errors import CutoverError, DefinitionError, LakeError
from cutover.events import log
from cutover.lake.control import versions
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.integrity import table_weights
from cutover.lake.registered_functions import find_recompute
from cutover.lake.serving import views
from cutover.lineage import runs
from cutover.lineage.runs import RunDatasets
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import name_log, split_topics
from cutover.pipeline_lake import PipelineLake, control_uri
from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.compare import ComparisonRequest, compare_at_cut
from cutover.reconcile.result.finding import Difference, Finding, Verdict, place_of
from cutover.reconcile.result.text import count_noun, duration, share
from cutover.reconcile.verdict import history, statistics
from cutover.reconcile.verdict.decision import Acceptance
from cutover.reconcile.verdict.history import AuditState, WindowAudit
from cutover.reconcile.verdict.statistics import DAY, SamplePlan, describe_requirement
from cutover.reconcile.watch.collector import find_shortest, parse_retention
from cutover.records.watermark import compute_closing_watermark, find_closed_end
from cutover.timestamps import format_micros, from_micros, parse_micros

_YEARS = 800 * DAY
"""Range that contains each month length and each change of clocks twice."""

_LESS = "a larger share or more days in `policy.audit` take less"
_WITHOUT = "`audit=None` in the policy goes without samples in KAPPA; the approver of the move is notified"


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """Final windows that an audit can sample."""

    version: Version
    range_start: int  # they end after this, microseconds
    range_end: int
    windows: tuple[Interval, ...]
    rows: Mapping[int, int]  # start -> served (window, key) rows, of the newest final windows and of `suspects`
    suspects: tuple[int, ...]  # starts of windows that the previous audit found wrong
    plan: SamplePlan

    @property
    def sample_size(self) -> int:
        """Return how many windows to draw: the planned number for each started day."""
        days = max(1, -(-(self.range_end - self.range_start) // DAY))
        return min(self.plan.count_draws(days), len(self.windows))


def find_population(lake: PipelineLake, window_audits: Sequence[WindowAudit]) -> Population:
    """Find the windows that became final since the last conclusive audit, within `within_days`.

    Raises:
        DefinitionError: The windows are sessions or never become final.
        LakeError: No window is final yet, or a table cannot be read.
    """
    pipeline = lake.pipeline
    window, audit = pipeline.window, _find_policy(pipeline)
    if not isinstance(window, AlignedWindowFn) or window.reach is None:
        text = "expected windows at fixed times that become final, got sessions or one over all of time"
        raise _make_refusal(pipeline, text, _WITHOUT)
    version = table_weights.check_epoch_log(lake, versions.find_current_version(lake))
    newest = EpochLog(version.uri).newest()
    closed_end = find_closed_end(pipeline, None if newest is None else newest.watermark_after)
    conclusive = history.list_judged(window_audits, version.number)
    wrong_windows = history.find_wrong_windows(window_audits)
    gap = 0 if closed_end is None else _measure_gap(window, closed_end)
    stretch = max(audit.within_days * DAY, gap)
    oldest, rows = (None, {}) if closed_end is None else _count_rows(lake, closed_end - stretch, wrong_windows)
    if closed_end is None or oldest is None:
        msg = f"Audit of `{pipeline.name}`: expected a final window, got none."
        raise LakeError(msg + "\nHint: a window is final once the watermark is past its end by allowed lateness.")
    start = max(oldest, closed_end - stretch - window.reach)
    final_windows = [
        candidate for candidate in list_windows(window, start, closed_end) if candidate.end > closed_end - stretch
    ]
    range_start = max(closed_end - stretch, *([conclusive[-1].until] if conclusive else [oldest]))
    return Population(
        version=version,
        range_start=range_start,
        range_end=closed_end,
        windows=tuple(candidate for candidate in final_windows if candidate.end > range_start),
        rows=rows,
        suspects=wrong_windows,
        plan=statistics.plan_sample(
            audit, [rows.get(candidate.start, 0) for candidate in final_windows], audit.within_days * DAY // gap
        ),
    )


def _measure_gap(window: AlignedWindowFn, last_end: int) -> int:
    """Return the largest time between two window ends, which varies for months and days on which clocks change."""
    reach = window.reach or DAY
    span = _YEARS if reach // window.max_windows >= DAY // 2 else 4 * reach
    ends = sorted({interval.end for interval in list_windows(window, last_end - span, last_end)})
    return max((later - earlier for earlier, later in pairwise(ends)), default=span)


def check_feasible(lake: PipelineLake, population: Population) -> None:
    """Reject an audit whose windows leave the log before it runs, or are too few for the policy's power.

    Raises:
        DefinitionError: States the retention and the required one, or the power that is possible.
    """
    _check_retention(lake)
    if population.plan.refusal is not None:
        raise _make_refusal(lake.pipeline, population.plan.refusal)


def find_audit_problem(lake: PipelineLake) -> str | None:
    """Return why a daily audit cannot meet the policy, with a hint; None if it can, or if no audit is configured."""
    if lake.pipeline.policy.audit is None:
        return None
    try:
        population = find_population(lake, history.list_audits(lake))
        check_feasible(lake, population)
    except CutoverError as error:
        return str(error)
    return None


def _find_policy(pipeline: Pipeline) -> Audit:
    if pipeline.policy.audit is None:
        raise _make_refusal(
            pipeline, "expected a policy that says what to find, got `audit=None`", "set `policy.audit`"
        )
    return pipeline.policy.audit


def _check_retention(lake: PipelineLake) -> None:
    pipeline = lake.pipeline
    shortest = find_shortest(
        parse_retention(LogClient(lake.settings).config(topic)) for topic in split_topics(name_log(pipeline))
    )
    lateness, reach = pipeline.lateness, pipeline.window.reach or 0
    age = (
        compute_closing_watermark(pipeline.window, lateness, reach)
        + lateness.out_of_orderness_micros
        + lateness.max_ahead_micros
    )
    needed = timedelta(microseconds=age + DAY)
    if shortest is not None and shortest < needed:
        text = f"expected a log that keeps records for {duration(needed.total_seconds())} (a window, until it is final "
        text += f"and a day more), it keeps them for {duration(shortest.total_seconds())}"
        raise _make_refusal(pipeline, text, "let the topics keep records longer: `retention.ms`")


def _make_refusal(pipeline: Pipeline, reason: str, hint: str = _LESS) -> DefinitionError:
    return DefinitionError(f"Audit of `{pipeline.name}`: {reason}.\nHint: {hint}.")


def _count_rows(lake: PipelineLake, earliest_end: int, suspects: Sequence[int]) -> tuple[int | None, dict[int, int]]:
    """Return the start of the oldest final window, and the rows by start of suspects and of windows after a time."""
    final, start = "FROM streaming WHERE _state <> 'open'", "epoch_us(window_start)"
    or_suspect = "".join(f" OR {start} = {suspect:d}" for suspect in suspects)
    with views.open_views(lake) as connection:
        try:
            (oldest,) = connection.execute(f"SELECT min({start}) {final}").fetchall()[0]
            condition = f"(window_end > make_timestamptz({earliest_end:d}::BIGINT){or_suspect})"
            rows = connection.execute(f"SELECT {start}, count(*) {final} AND {condition} GROUP BY 1").fetchall()
        except duckdb.Error as error:
            msg = f"Audit of `{lake.name}`: expected rows of final windows, got: {str(error).splitlines()[0]}"
            raise LakeError(msg, runbook="TableUnreadable") from error
    return (None if oldest is None else int(oldest)), {int(at): int(count) for at, count in rows}


def sample_windows(windows: Iterable[Interval], count: int, seed: int) -> tuple[Interval, ...]:
    """Sample windows uniformly; the same seed selects the same windows, whatever their order.

    Each window has a rank that depends only on the seed and its start, so neither order nor ties matter.
    """
    ranked = sorted((_rank(window, seed), window) for window in windows)
    return tuple(sorted(window for _, window in ranked[:count]))


def _rank(interval: Interval, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}/{interval.start}".encode()).digest()


MAX_EXAMPLES = 20
"""Rows that an audit lists."""


def find_touched_by_audit(lake: PipelineLake, window_audit: WindowAudit) -> RunDatasets:
    """Return the stream's table, and what the audit said of the windows that it drew."""
    from cutover.lineage import datasets  # noqa: PLC0415 -- its client takes a second to load: only if lineage is configured

    facets = {
        "state": str(window_audit.state),
        "windows": len(window_audit.windows),
        "seed": window_audit.seed,
        "epoch": window_audit.epoch,
    }
    number = window_audit.stream_version
    read = () if number is None else (datasets.make_input_table(lake.stream_uri(number), None),)
    is_kept = window_audit.state is not AuditState.NOTHING_NEW
    tables = (datasets.make_output_table(control_uri(lake.settings, "audits"), None),) if is_kept else ()
    return RunDatasets(inputs=read, outputs=tables, facets=facets)


@runs.emit_lineage("audit", find_touched_by_audit)
def audit_windows(lake: PipelineLake, *, seed: int, clock: Clock) -> WindowAudit:
    """Audit a sample of the windows that became final since the last audit, and record the result if there are any.

    Args:
        lake: Pipeline to audit.
        seed: Seed of the sample.
        clock: Clock for the time of the audit.

    Raises:
        DefinitionError: The policy cannot be met with these windows, rows or this retention; nothing was recorded.
        LakeError: No window is final yet, or a table cannot be read.
    """
    audits = history.list_audits(lake)
    eligible = find_population(lake, audits)
    sample = sample_windows(eligible.windows, eligible.sample_size, seed)
    previous_audits = history.list_judged(audits, eligible.version.number)
    intervals = sorted(
        {
            *sample,
            *(
                interval
                for interval in _list_suspect_windows(lake.pipeline, eligible.suspects)
                if interval.end <= eligible.range_end
            ),
        }
    )
    if intervals or eligible.windows:
        check_feasible(lake, eligible)
    result = _compare(lake, intervals, clock) if intervals else None
    audit = _describe(lake.pipeline, eligible, sample, intervals, result)
    miss_chance = history.find_common_miss_chance(previous_audits, eligible.range_end, eligible.plan.audit)
    at = clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
    completed = replace(audit, at=at, seed=seed, power=1.0 - miss_chance * audit.missed)
    if result is None:
        return completed
    history.record_audit(lake, completed)
    log.info("windows_audited", pipeline=lake.name, state=str(completed.state), windows=len(intervals), seed=seed)
    return completed


def _list_suspect_windows(pipeline: Pipeline, starts: Sequence[int]) -> list[Interval]:
    windows = (window for start in starts for window in pipeline.window.assign_windows(start) if window.start == start)
    return list(windows)


def _compare(lake: PipelineLake, intervals: Sequence[Interval], clock: Clock) -> Finding | str:
    """Compare the recomputed windows with the stream's; return the finding, or why they cannot be compared."""
    now = history.find_rule_time(lake, clock.now())
    rules = Acceptance(rules=acceptance_files.load_acceptance_rules(lake), now=now)
    with ExitStack() as stack:
        try:
            recompute = find_recompute()
            ranges = [(interval.start, interval.end) for interval in intervals]
            recomputed = stack.enter_context(recompute(lake, ranges, clock))
        except CutoverError as error:
            return str(error).splitlines()[0]
        # Windows outside the sample's range were not recomputed, so rows of the stream in them are not extra rows.
        start, end = from_micros(intervals[0].start), from_micros(intervals[-1].start + 1)
        return compare_at_cut(
            PipelineLake(recomputed, lake.pipeline), ComparisonRequest(start=start, end=end, acceptance=rules)
        ).finding


def _describe(
    pipeline: Pipeline,
    population: Population,
    intervals: Sequence[Interval],
    windows: Sequence[Interval],
    result: Finding | str | None,
) -> WindowAudit:
    audit = WindowAudit(
        pipeline=pipeline.name,
        at="",
        state=AuditState.NOT_COMPARABLE,
        reason="",
        audit=population.plan.audit,
        seed=0,
        since=population.range_start,
        until=population.range_end,
        population=len(population.windows),
        wanted=population.sample_size,
        windows=tuple(window.start for window in windows),
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
    return replace(_evaluate_comparison(audit, population, intervals, result), epoch=_epoch(result))


def _epoch(result: Finding) -> int:
    return -1 if result.seal.epoch is None else result.seal.epoch


def _evaluate_comparison(
    audit: WindowAudit, population: Population, intervals: Sequence[Interval], result: Finding
) -> WindowAudit:
    """Evaluate a comparison; if some windows could not be recomputed, the sample's largest ones do not count.

    It is not known which windows those are. So if the sample contains suspect windows, all of its windows have to be
    recomputed.
    """
    counts = sorted(population.rows.get(interval.start, 0) for interval in intervals)
    nonempty = sum(population.rows.get(start, 0) > 0 for start in audit.windows)
    omitted = min(len(counts), max(0, nonempty - result.windows.compared))
    not_final = len(set(population.suspects) - set(audit.windows))
    if not_final:
        are = choose_form(not_final, "is", "are")
        suspects = count_noun(len(population.suspects), "window")
        reason = f"{not_final} of {suspects} that audits found wrong {are} not final in this version."
        return replace(audit, reason=reason, runbook="RetirementRegression")
    if population.suspects and nonempty > result.windows.compared:
        reason = (
            f"{nonempty - result.windows.compared} of {nonempty} windows cannot be computed again, and some were wrong."
        )
        return replace(audit, reason=reason, runbook="RetirementRegression")
    evaluated = counts[: len(counts) - omitted]
    open_rows = result.policy.unexplained - result.policy.accepted
    is_wrong = open_rows > result.policy.max_unexplained
    unexplained = [difference for difference in result.differences if UNEXPLAINED in difference.cause]
    wrong = [difference for difference in unexplained if difference.accepted_by is None]
    are_listed = len({place_of(difference) for difference in unexplained}) == result.causes[UNEXPLAINED].rows
    starts = {parse_micros(difference.window_start) for difference in wrong if difference.window_start}
    return replace(
        audit,
        state=AuditState.REGRESSION if is_wrong else AuditState.AGREES,
        reason=result.sentence,
        judged=len(evaluated),
        rows=sum(evaluated),
        missed=statistics.find_sample_miss_chance(audit.audit, evaluated),
        unexplained=open_rows,
        wrong=(tuple(sorted(starts)) if are_listed else audit.windows) if is_wrong else (),
        examples=tuple(map(_describe_row, wrong[:MAX_EXAMPLES])) if is_wrong else (),
        causes={name: cause.rows for name, cause in result.causes.items() if cause.rows},
        runbook="RetirementRegression" if is_wrong else None,
    )


def _describe_row(difference: Difference) -> str:
    key = ", ".join(f"{name}={value}" for name, value in difference.key.items())
    values = f"served {difference.streaming}, recomputed {difference.batch}"
    return f"{difference.window_start} {key}: {difference.measure} {difference.kind}, {values}"


def describe_audit(audit: WindowAudit) -> Iterator[str]:
    """Describe the sample, its power and its result, one line each."""
    if audit.state is AuditState.NOTHING_NEW:
        return
    span = f"after {format_micros(audit.since)}, up to {format_micros(audit.until)}"
    yield (
        f"{audit.judged:,} of {count_noun(audit.population, 'window')} that became final ({span}) recomputed from the "
        f"log, {count_noun(audit.rows, 'row')}, seed {audit.seed}."
    )
    yield f"To find {describe_requirement(audit.audit)}: the audits of these days together have {share(audit.power)}."
    if audit.causes and audit.state is AuditState.AGREES:
        yield (
            "Explained: "
            + ", ".join(f"{name} {count_noun(rows, 'row')}" for name, rows in sorted(audit.causes.items()))
            + "."
        )
    yield audit.reason


def describe_next_step(audit: WindowAudit, *, rolled_back: bool) -> str:
    """Describe the result and the next step in one line."""
    name = audit.pipeline
    if audit.state is AuditState.AGREES and audit.causes:
        return f"Audit of {name}: each difference in {count_noun(audit.judged, 'window')} of the sample has a cause."
    if audit.state is AuditState.AGREES:
        return f"Audit of {name}: the {count_noun(audit.judged, 'window')} of the sample agree with the log."
    if audit.state is AuditState.NOTHING_NEW:
        return f"Audit of {name}: no window became final since the last one. Next: the same once one is."
    if audit.state is AuditState.NOT_COMPARABLE:
        return f"Audit of {name}: nothing can be said. See docs/runbooks/{audit.runbook or 'NotComparable'}.md."
    are = "is" if audit.unexplained == 1 else "are"
    text = f"Audit of {name}: {count_noun(audit.unexplained, 'row')} of final windows {are} wrong"
    if rolled_back:
        return f"{text}; {name} is back in {Stage.LAMBDA}. Next: `cutover batch {name}` catches batch up with the log."
    return f"{text}. Next: docs/runbooks/RetirementRegression.md."
