"""The windows that an audit draws from, and whether a daily audit of them can find what the policy asks for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import duckdb

from cutover.definition.model.pipeline import Audit, Pipeline
from cutover.definition.windows.window_fn import AlignedWindowFn, Interval, list_windows
from cutover.errors import CutoverError, DefinitionError, LakeError
from cutover.lake.control import versions
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.integrity import table_weights
from cutover.lake.serving import views
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import log_of, topics_of
from cutover.reconcile.judgement.audits import audit_record
from cutover.reconcile.judgement.audits.audit_record import WindowAudit
from cutover.reconcile.result.text import duration
from cutover.reconcile.watch.retention import retention, shortest
from cutover.reconcile.window_audit import power
from cutover.reconcile.window_audit.power import DAY, SamplePlan
from cutover.records.closing import closing, find_closed_end
from cutover.settings import Settings

_LESS = "a larger share or more days in `policy.audit` take less"
_WITHOUT = "`audit=None` in the policy goes without samples in KAPPA; whoever approves the move is told"


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
        """Return how many to draw: of each day that has begun since as many as are planned."""
        days = max(1, -(-(self.until - self.since) // DAY))
        return min(self.plan.count_draws(days), len(self.windows))


def find_population(settings: Settings, pipeline: Pipeline, known: Sequence[WindowAudit]) -> Population:
    """Return the windows that became final since the last audit that said something, at most `within_days` of them.

    Raises:
        DefinitionError: The windows are sessions or never become final.
        LakeError: Nothing is final yet, or a table cannot be read.
    """
    window, audit = pipeline.window, _find_policy(pipeline)
    if not isinstance(window, AlignedWindowFn) or window.reach is None:
        text = "expected windows at fixed times that become final, got sessions or one over all of time"
        raise _make_refusal(pipeline, text, _WITHOUT)
    version = table_weights.refuse_no_epochs(settings, pipeline, versions.current(settings, pipeline))
    newest = EpochLog(version.uri).newest()
    until = find_closed_end(pipeline, None if newest is None else newest.watermark_after)
    oldest, rows = (None, {}) if until is None else _count_rows(settings, pipeline, until - audit.within_days * DAY)
    if until is None or oldest is None:
        msg = f"Audit of `{pipeline.name}`: expected a final window, got none."
        raise LakeError(msg + "\nHint: a window is final once the watermark is past its end by allowed lateness.")
    first = max(oldest, until - audit.within_days * DAY)
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


def refuse_unreachable(settings: Settings, pipeline: Pipeline, found: Population) -> None:
    """Refuse an audit whose windows leave the log before it looks at them, or are too few for what it must find.

    Raises:
        DefinitionError: Says how long the topics keep a record and how long they must, or what could be found.
    """
    _refuse_short_retention(settings, pipeline)
    if found.plan.refusal is not None:
        raise _make_refusal(pipeline, found.plan.refusal)


def find_refusal(settings: Settings, pipeline: Pipeline) -> str | None:
    """Return why a daily audit could not find what the policy asks for, with a hint; None: it can, or need not."""
    if pipeline.policy.audit is None:
        return None
    try:
        found = find_population(settings, pipeline, audit_record.list_audits(settings, pipeline))
        refuse_unreachable(settings, pipeline, found)
    except CutoverError as error:
        return str(error)
    return None


def _find_policy(pipeline: Pipeline) -> Audit:
    if pipeline.policy.audit is None:
        raise _make_refusal(
            pipeline, "expected a policy that says what to find, got `audit=None`", "set `policy.audit`"
        )
    return pipeline.policy.audit


def _refuse_short_retention(settings: Settings, pipeline: Pipeline) -> None:
    kept = shortest(retention(LogClient(settings).config(topic)) for topic in topics_of(log_of(pipeline)))
    lateness, reach = pipeline.lateness, pipeline.window.reach or 0
    age = closing(pipeline.window, lateness, reach) + lateness.out_of_orderness_micros + lateness.max_ahead_micros
    needed = timedelta(microseconds=age + DAY)
    if kept is not None and kept < needed:
        text = f"expected a log that keeps records for {duration(needed.total_seconds())} (a window, until it is final "
        text += f"and a day more), it keeps them for {duration(kept.total_seconds())}"
        raise _make_refusal(pipeline, text, "let the topics keep records longer: `retention.ms`")


def _make_refusal(pipeline: Pipeline, why: str, hint: str = _LESS) -> DefinitionError:
    return DefinitionError(f"Audit of `{pipeline.name}`: {why}.\nHint: {hint}.")


def _count_rows(settings: Settings, pipeline: Pipeline, first: int) -> tuple[int | None, dict[int, int]]:
    """Return the oldest final window's start, and of those that end behind a time the rows, by start."""
    final = "FROM streaming WHERE _state <> 'open'"
    with views.connect(settings, pipeline) as connection:
        try:
            (oldest,) = connection.execute(f"SELECT epoch_us(min(window_start)) {final}").fetchall()[0]
            newer = f"AND window_end > make_timestamptz({first}::BIGINT)"
            query = f"SELECT epoch_us(window_start), count(*) {final} {newer} GROUP BY 1"
            rows = connection.execute(query).fetchall()
        except duckdb.Error as error:
            msg = f"Audit of `{pipeline.name}`: expected rows of final windows, got: {str(error).splitlines()[0]}"
            raise LakeError(msg, runbook="TableUnreadable") from error
    return (None if oldest is None else int(oldest)), {int(start): int(count) for start, count in rows}
