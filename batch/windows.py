"""Windows that a run computes: inputs of the pure plan, from the index and the log.

The sessions of a run are not known in advance, so everything from a certain time on is folded again (`SessionsSince`):
no session that changed since the last run, or was open then, begins earlier. The index knows the hours that hold rows
(`HOURS`), so only their offsets are read again. Records that have left the log freeze sessions: one that may have begun
with them keeps its row and is incomplete(expired).

Ranges of missing rows (`incomplete`, `stale`) apply to all sessions that they touch; ranges of written rows
(`computed`) apply to sessions that lie wholly inside.
"""

# ruff: noqa: S608 -- every name in a query is quoted or internal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from cutover.batch import plan
from cutover.batch.context import RetainedRows, RunContext
from cutover.batch.plan import PlanBounds, RunPlan
from cutover.batch.read import index, scan
from cutover.batch.read.scan import HOURS
from cutover.definition.model.pipeline import Sql
from cutover.definition.windows.kinds import Sessions
from cutover.definition.windows.window_fn import LATEST, AlignedWindowFn, Interval, select_last_window
from cutover.engine import queries
from cutover.events import log
from cutover.lake.batch_runs import EXPIRED, LOST, Incomplete, Range
from cutover.lake.control.losses import is_touched, list_ends
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import batch_schema
from cutover.log.topic_partitions import name_log, name_offsets
from cutover.quoting import identifier
from cutover.records.classes import Class
from cutover.records.fold import SESSION, finish_sql, group_sessions_sql
from cutover.records.parsing import limits
from cutover.records.reading.scan import Offsets, OffsetSpan, plan_reads
from cutover.records.watermark import find_closed_end

Read = Callable[[RunContext, tuple[Offsets, ...]], None]

FOLDED_TABLE, KEPT_TABLE = "folded_sessions", "kept_sessions"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsSince:
    """Times from which a run computes; microseconds of event time."""

    rows: int | None  # rows from then on are read; None: nothing has changed
    sessions: int  # sessions that start earlier may miss rows that have left the log
    folded: int  # an earlier start is only a part of a session that has not changed


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedSessions:
    """Results of a run for sessions."""

    plan: RunPlan
    incomplete: tuple[Incomplete, ...]
    query: str | None  # the rows to publish, in the columns of `finish_sql`; None: none
    open_from: int | None  # start of the first session that was not computed: open, or no longer computable
    retained: RetainedRows | None = None  # of a run that replaces the whole table


def plan_windows(work: RunContext, window: AlignedWindowFn, offsets: Offsets) -> tuple[RunPlan, tuple[Incomplete, ...]]:
    """Plan the windows of a run, and list all windows that are known to have lost records.

    Args:
        work: The run, with the scan staged and its ranges bound.
        window: The window function of the definition.
        offsets: Offsets that no run had scanned, including those of lost records.
    """
    touches = index.list_touched_windows(work.connection)
    starts = sorted(touch.window.start for touch in touches)
    complete_from = find_first_complete_start(work, offsets, starts, window)
    first_complete = max(find_frozen_before(work), limits.MIN_MICROS if complete_from is None else complete_from)
    expired_windows = index.find_expired_windows(work.connection, work.earliest, work.scan)
    bounds = PlanBounds(
        window=window,
        closed=find_closed_end(work.pipeline, work.target.record.watermark_after),
        requested=work.requested,
        expired=lambda start: (
            start < first_complete or start in expired_windows or is_touched(start, work.lost_windows)
        ),
        ahead=_find_windows_ahead(work),
    )
    planned = plan.plan(touches, [run.computed for run in work.history.runs], bounds)
    expired = [
        Interval(limits.MIN_MICROS, first_complete),
        *(Interval(start, window.next_start(start)) for start in expired_windows),
    ]
    lost_intervals = [Interval(*starts) for starts in work.lost_windows]
    if work.replaces_earlier_runs or work.anew:
        planned = plan.cover_recomputable(planned, work.held_ranges, bounds, [*expired, *lost_intervals])
    skipped = plan.list_skipped(bounds, {LOST: lost_intervals, EXPIRED: expired})
    return replace(planned, skipped=skipped), _list_incomplete(work, planned, first_complete)


def find_frozen_before(work: RunContext) -> int:
    """Return the start before which windows have expired, from the latest run."""
    known_incomplete = [entry for run in work.history.runs[-1:] for entry in run.incomplete]
    return max(
        (plan.parse_frozen_before(entry, work.pipeline) for entry in known_incomplete), default=limits.MIN_MICROS
    )


def find_first_complete_start(
    work: RunContext, offsets: Offsets, starts: list[int], window: AlignedWindowFn
) -> int | None:
    """Find the start before which windows may have lost records that no run scanned; None if there are none.

    There are two bounds: log timestamps, by which the records of a window are at most `max_ahead` older than it, and
    event times of the records that the stream has read. A team's own SQL may count records that neither path counts, so
    only log timestamps bound what it lacks.

    Args:
        work: The run.
        offsets: Offsets that no run had scanned, including those of lost records.
        starts: Starts of the windows that hold records, ascending.
        window: The window function of the definition.
    """
    losses_of_topic = [loss for loss in list_ends(work.accepted_losses) if loss.topic_id == work.target.record.topic_id]
    gaps = plan.find_unrecorded_gaps(plan.first_left(offsets, work.earliest), offsets, losses_of_topic)
    if not gaps:
        return None
    log.warning(
        "batch_log_expired",
        pipeline=work.pipeline.name,
        first_offsets=name_offsets(gaps),
        scanned_to=name_offsets(work.history.scanned),
    )
    topic = name_log(work.pipeline)
    remaining = plan.remaining_offsets(offsets, work.earliest)
    complete_start = (
        plan.find_complete_start(starts, gaps, work.pipeline, lambda at: work.client.offsets_for_time(topic, at))
        if gaps.keys() <= remaining.keys()
        else None
    )
    if complete_start is None:
        # No retained record bounds the lost ones: they may belong to any window of which the stream has read a record.
        read = (select_last_window(window, at).start for at in work.target.record.max_event.values())
        complete_start = window.next_start(max([*starts, *read], default=limits.MIN_MICROS))
    newest_lost = None if isinstance(work.pipeline.batch, Sql) else _find_newest_lost(work, offsets, gaps)
    return (
        complete_start
        if newest_lost is None
        else min(complete_start, window.next_start(select_last_window(window, newest_lost).start))
    )


def _find_newest_lost(work: RunContext, offsets: Offsets, gaps: Mapping[int, int]) -> int | None:
    """Find an upper bound for the event times of lost records from the epochs; None if they do not show it."""
    target = work.target.record
    epochs = EpochLog(work.target.version.uri).records()
    records = [epoch for epoch in epochs if epoch.topic_id == target.topic_id and epoch.epoch <= target.epoch]
    return plan.find_newest_lost(records, offsets, gaps)


def _find_windows_ahead(work: RunContext) -> frozenset[int] | None:
    """Find windows with records beyond the cut in the batch table; None if no run has read beyond the cut."""
    if not work.is_behind:
        return None
    log.info("batch_ahead_of_cut", pipeline=work.pipeline.name, epoch=work.target.record.epoch)
    return index.find_windows_beyond(work.connection, work.target.record.end)


def _list_incomplete(work: RunContext, planned: RunPlan, first_complete: int) -> tuple[Incomplete, ...]:
    alone = tuple(
        Incomplete(window_start=start, window_end=end, reason=EXPIRED)
        for start, end in planned.expired
        if start >= first_complete and not is_touched(start, work.lost_windows)
    )
    lost_entries = tuple(plan.make_lost_entry(starts, work.pipeline) for starts in work.lost_windows)
    frozen_entries = (
        () if first_complete == limits.MIN_MICROS else (plan.make_frozen_entry(first_complete, work.pipeline),)
    )
    return (*frozen_entries, *lost_entries, *alone)


def read_again(work: RunContext, reads: tuple[Offsets, ...]) -> None:
    """Stage the partials of offsets that an earlier run scanned, by Spark."""
    scan.stage_again(work.records(reads), work.pipeline, work.staged, work.dimensions(reads))


def compute_sessions(work: RunContext, window: Sessions, offsets: Offsets, read: Read = read_again) -> ComputedSessions:
    """Fold all sessions that may have changed, and determine which are final and complete.

    Args:
        work: The run, with the scan staged and its ranges bound.
        window: The sessions of the definition.
        offsets: Offsets that no run had scanned, including those of lost records.
        read: Stages offsets as the view `read_again`.
    """
    closed_end = find_closed_end(work.pipeline, work.target.record.watermark_after)
    newest_run = work.history.newest
    if work.is_behind:
        stale = _list_ranges_ahead(work, window)
        incomplete = () if newest_run is None else newest_run.incomplete
        return ComputedSessions(
            plan=_plan((), stale),
            incomplete=incomplete,
            query=None,
            open_from=newest_run.open_from if newest_run else None,
        )
    _bind_table(work)
    sessions_since = _since(work, window, offsets, closed_end)
    incomplete = _list_incomplete_sessions(work, sessions_since.sessions)
    if sessions_since.rows is None:
        return ComputedSessions(
            plan=_plan((), ()),
            incomplete=incomplete,
            query=None,
            open_from=newest_run.open_from if newest_run else None,
        )
    first_hour = max(sessions_since.rows, sessions_since.sessions)
    computed, known_ranges = (
        pieces(first_hour, closed_end, work.lost_windows),
        pieces(first_hour, LATEST, work.lost_windows),
    )
    _fold(work, _query_rows(work, sessions_since.rows, read), computed, known_ranges, sessions_since.folded)
    return ComputedSessions(
        plan=_plan(computed, ()),
        incomplete=incomplete,
        query=f"SELECT * EXCLUDE (__published, __kept), {int(work.target.record.epoch)}::BIGINT AS _epoch"
        f" FROM {FOLDED_TABLE} WHERE __published",
        open_from=_find_first_open(work, sessions_since.rows),
        retained=_list_kept(work, known_ranges) if work.anew else None,
    )


def pieces(next_start: int, end_limit: int | None, lost_ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Split a period into the ranges whose sessions no loss touches.

    Args:
        next_start: Start of the period, microseconds.
        end_limit: End of the period; None: it is empty.
        lost_ranges: Ranges `[from, to)` whose sessions may lack records; ascending, disjoint.
    """
    if end_limit is None:
        return ()
    ranges = []
    for start, end in lost_ranges:
        ranges.append((next_start, min(start - 1, end_limit)))
        next_start = max(next_start, end)
    ranges.append((next_start, end_limit))
    return tuple((start, end) for start, end in ranges if start < end)


def _plan(computed: Sequence[Range], stale: Sequence[Range]) -> RunPlan:
    return RunPlan(compute=(), computed=tuple(computed), stale=tuple(stale), expired=())


def _since(work: RunContext, window: Sessions, offsets: Offsets, closed_end: int | None) -> SessionsSince:
    """Find the times from which rows changed and from which the log is complete."""
    starts = sorted({touch.window.start for touch in index.list_touched_windows(work.connection)})
    complete_from = find_first_complete_start(work, offsets, starts, HOURS)
    sessions = max(
        find_frozen_before(work), limits.MIN_MICROS if complete_from is None else complete_from + window.gap_micros
    )
    rows = _find_first_changed(work, closed_end)
    expired_windows = index.find_expired_windows(work.connection, work.earliest, work.scan)
    readable = max((HOURS.next_start(start) for start in expired_windows), default=limits.MIN_MICROS)
    if rows is not None and rows < readable:
        # Some of the rows to read again have left the log: sessions that may have begun with them are frozen.
        frozen = max(sessions, readable + window.gap_micros)
        return SessionsSince(rows=readable, sessions=frozen, folded=limits.MIN_MICROS)
    return SessionsSince(rows=rows, sessions=sessions, folded=limits.MIN_MICROS if rows is None else rows)


def _find_first_changed(work: RunContext, closed_end: int | None) -> int | None:
    """Return the start of the first session that has changed or was not computed; None: there is none."""
    newest_run = work.history.newest
    if newest_run is None:
        return limits.MIN_MICROS
    touched, closed_then = _find_first_touched(work), find_closed_end(work.pipeline, newest_run.watermark)
    later = (
        newest_run.open_from if closed_end is not None and (closed_then is None or closed_then < closed_end) else None
    )
    return min((start for start in (touched, later) if start is not None), default=None)


def _find_first_touched(work: RunContext) -> int | None:
    """Return the start of the first session that the rows of this scan are in, with what the batch table has."""
    keys = ", ".join(identifier(name) for name in work.pipeline.key)
    columns = f"{keys}, window_start, window_end"
    new = f"SELECT DISTINCT {columns}, true AS __new FROM {scan.SCAN} WHERE _class = '{Class.ACCEPTED}'"
    same_key = " AND ".join(f"s.{key} IS NOT DISTINCT FROM f.{key}" for key in map(identifier, work.pipeline.key))
    of_these_keys = f"EXISTS (SELECT 1 FROM {scan.SCAN} s WHERE {same_key})"
    both = f"(SELECT {columns}, false AS __new FROM found_sessions f WHERE {of_these_keys} UNION ALL {new})"
    joined = group_sessions_sql(work.pipeline.key, both)
    query = (
        f"SELECT epoch_us(min(window_start)) AS opens FROM ({joined}) GROUP BY {keys}, {SESSION} HAVING bool_or(__new)"
    )
    (first_opening,) = work.connection.execute(f"SELECT min(opens) FROM ({query})").fetchall()[0]
    return None if first_opening is None else int(first_opening)


def _query_rows(work: RunContext, start: int, read: Read) -> str:
    """Return the query of the rows since a time, and perhaps some before it."""
    sources = [scan.SCAN]
    reads_sql = plan_reads(_spans(work, start))
    if reads_sql:
        read(work, reads_sql)
        sources.append(scan.AGAIN)
    return " UNION ALL BY NAME ".join(f"SELECT * FROM {source}" for source in sources)


def _fold(work: RunContext, rows: str, computed: Sequence[Range], known_ranges: Sequence[Range], start: int) -> None:
    """Create the table of all sessions that start since a time, with a flag for those that are published.

    A retained session of the table may include rows that are read here too: such a part is not a session.

    Args:
        work: The run.
        rows: The query of the rows that are folded.
        computed: Ranges whose sessions are published.
        known_ranges: The same, including open ones: sessions of the table outside of them are retained.
        start: Microseconds.
    """
    inside_sql = index.inside_sql(computed)
    keys = " AND ".join(f"k.{key} IS NOT DISTINCT FROM f.{key}" for key in map(identifier, work.pipeline.key))
    touches = f"k.window_start <= f.window_end AND f.window_start <= k.window_end AND {keys}"
    holds = f"k.window_start <= f.window_start AND f.window_end <= k.window_end AND {keys}"
    unknown = f"NOT ({index.inside_sql(known_ranges)})"
    work.connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {KEPT_TABLE} AS SELECT * FROM found_sessions WHERE {unknown}"
    )
    work.connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {FOLDED_TABLE} AS SELECT *,"
        f" ({inside_sql}) AND NOT EXISTS (SELECT 1 FROM {KEPT_TABLE} k WHERE {touches}) AS __published,"
        f" EXISTS (SELECT 1 FROM {KEPT_TABLE} k WHERE {holds}) AS __kept"
        f" FROM ({finish_sql(work.pipeline, f'({rows})')}) f WHERE epoch_us(window_start) >= {start}"
    )


def _spans(work: RunContext, start: int) -> list[OffsetSpan]:
    """Return where the rows since a time lie, as earlier scans found them, as far as the log still holds them."""
    work.connection.execute(
        "CREATE OR REPLACE TEMP VIEW since_hours AS"
        f" SELECT DISTINCT window_start FROM ranges WHERE window_end > {int(start)}"
    )
    offset_spans = index.list_spans(work.connection, "since_hours", scan=work.scan)
    remaining_spans = ((span, max(span.first_offset, work.earliest.get(span.partition, 0))) for span in offset_spans)
    return [
        OffsetSpan(partition=span.partition, first_offset=offset, last_offset=span.last_offset)
        for span, offset in remaining_spans
        if offset <= span.last_offset
    ]


def _find_first_open(work: RunContext, start: int) -> int | None:
    query = f"SELECT epoch_us(min(window_start)) FROM {FOLDED_TABLE} WHERE NOT __published AND NOT __kept"
    (first_open,) = work.connection.execute(query).fetchall()[0]
    return None if first_open is None else max(int(first_open), start)


def _list_kept(work: RunContext, known_ranges: Sequence[Range]) -> RetainedRows:
    """Return the sessions of earlier runs outside of the ranges from which on all sessions are known again."""
    gaps = [(end, start) for (_, end), (start, _) in pairwise([(0, limits.MIN_MICROS), *known_ranges, (LATEST, 0)])]
    parts = [
        (max(range_start, gap), min(end, gap_end)) for range_start, end in work.held_ranges for gap, gap_end in gaps
    ]
    rows = queries.query_table(work.connection, f"SELECT * FROM {KEPT_TABLE}").cast(batch_schema(work.pipeline))
    return RetainedRows(rows=rows, ranges=tuple(sorted({part for part in parts if part[0] < part[1]})))


def _bind_table(work: RunContext) -> None:
    """Bind the batch table as `found_sessions`: as it is, or as recorded where a run trusts nothing since."""
    uri = work.lake.batch_uri()
    if work.recorded_table is not None:
        delta.bind(work.connection, "found_sessions", work.recorded_table)
    elif delta.exists(uri) and not work.anew:
        delta.relation(work.connection, "found_sessions", uri)
    else:
        work.connection.register("found_sessions", batch_schema(work.pipeline).empty_table())


def _list_incomplete_sessions(work: RunContext, start: int) -> tuple[Incomplete, ...]:
    lost_entries = tuple(plan.make_lost_entry(starts, work.pipeline) for starts in work.lost_windows)
    return (
        *(() if start == limits.MIN_MICROS else (plan.make_frozen_entry(start, work.pipeline),)),
        *lost_entries,
    )


def _list_ranges_ahead(work: RunContext, window: Sessions) -> list[Range]:
    """Return the stretches of time in which the batch table holds more than the cut, or less since they were open."""
    hours = sorted(index.find_windows_beyond(work.connection, work.target.record.end))
    hour_ranges = [(start, HOURS.next_start(start) - 1 + window.gap_micros) for start in hours]
    marks = [find_closed_end(work.pipeline, run.watermark) for run in work.history.runs if run.computed]
    latest_mark = max((mark for mark in marks if mark is not None), default=limits.MIN_MICROS)
    return [*hour_ranges, (latest_mark + 1, LATEST)]
