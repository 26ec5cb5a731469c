"""Population of windows that an audit samples, the sample, and the power of a daily audit under the policy.

The sample is a pure function of the seed.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

import duckdb

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.policy import Audit
from cutover.definition.windows.window_fn import AlignedWindowFn, Interval, list_windows
from cutover.errors import CutoverError, DefinitionError, LakeError
from cutover.lake.control import versions
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.integrity import table_weights
from cutover.lake.serving import views
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import name_log, split_topics
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.text import duration
from cutover.reconcile.verdict.audits import audit_record, power
from cutover.reconcile.verdict.audits.audit_record import WindowAudit
from cutover.reconcile.verdict.audits.power import DAY, SamplePlan
from cutover.reconcile.watch.log_observer import find_shortest, parse_retention
from cutover.records.watermark import compute_closing_watermark, find_closed_end

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
    conclusive = audit_record.list_judged(window_audits, version.number)
    wrong_windows = audit_record.find_wrong_windows(window_audits)
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
        plan=power.plan_sample(
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
        population = find_population(lake, audit_record.list_audits(lake))
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
