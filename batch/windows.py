"""Which windows this run computes: what the index and the log say, handed to the pure plan."""

from collections.abc import Mapping
from dataclasses import replace

from cutover.batch.context import RunContext
from cutover.batch.plan import dirty, retention
from cutover.batch.plan.dirty import PlanBounds, RunPlan
from cutover.batch.read import index
from cutover.definition.model.pipeline import Sql
from cutover.definition.windows.window_fn import AlignedWindowFn, Interval, select_last_window
from cutover.events import log
from cutover.lake.batch_runs import EXPIRED, LOST, Incomplete
from cutover.lake.control.losses import is_touched, list_ends
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.log.topic_partitions import name_log, name_offsets
from cutover.records.closing import find_closed_end
from cutover.records.parsing import limits
from cutover.records.reading.scan import Offsets


def plan_windows(work: RunContext, window: AlignedWindowFn, offsets: Offsets) -> tuple[RunPlan, tuple[Incomplete, ...]]:
    """Return the run's plan, and every window that is known to have lost records.

    Args:
        work: With the scan staged and its ranges bound.
        window: The definition's.
        offsets: What no run had scanned, lost records included.
    """
    touches = index.touches(work.connection)
    starts = sorted(touch.window.start for touch in touches)
    complete_from = whole_from(work, offsets, starts, window)
    first_complete = max(frozen_before(work), limits.MIN_MICROS if complete_from is None else complete_from)
    expired_windows = index.find_expired_windows(work.connection, work.earliest, work.scan)
    bounds = PlanBounds(
        window=window,
        closed=find_closed_end(work.pipeline, work.target.record.watermark_after),
        wanted=work.wanted,
        expired=lambda start: start < first_complete or start in expired_windows or is_touched(start, work.lost),
        ahead=_find_windows_ahead(work),
    )
    planned = dirty.plan(touches, [run.computed for run in work.history.runs], bounds)
    expired = [
        Interval(limits.MIN_MICROS, first_complete),
        *(Interval(start, window.next_start(start)) for start in expired_windows),
    ]
    lost_intervals = [Interval(*starts) for starts in work.lost]
    if work.begins_anew or work.anew:
        planned = dirty.cover_recomputable(planned, work.held, bounds, [*expired, *lost_intervals])
    left_out = dirty.list_left_out(bounds, {LOST: lost_intervals, EXPIRED: expired})
    return replace(planned, left_out=left_out), _list_incomplete(work, planned, first_complete)


def frozen_before(work: RunContext) -> int:
    """Return the start before which windows have expired, as the run before has it."""
    known_incomplete = [entry for run in work.history.runs[-1:] for entry in run.incomplete]
    return max((retention.frozen_before(entry, work.pipeline) for entry in known_incomplete), default=limits.MIN_MICROS)


def whole_from(work: RunContext, offsets: Offsets, starts: list[int], window: AlignedWindowFn) -> int | None:
    """Return the start before which windows may have lost records that nobody scanned; None: there are none.

    Two bounds hold: log timestamps, by which a window's records are at most `max_ahead` older than it, and the event
    times of what the stream has read. The team's own SQL may count records that neither path of ours does: log
    timestamps alone bound what it lacks.

    Args:
        work: The run.
        offsets: What no run had scanned, lost records included.
        starts: Of the windows that hold records, ascending.
        window: Which windows there are.
    """
    losses_of_topic = [loss for loss in list_ends(work.recorded) if loss.topic_id == work.target.record.topic_id]
    gaps = retention.find_unrecorded_gaps(retention.first_left(offsets, work.earliest), offsets, losses_of_topic)
    if not gaps:
        return None
    log.warning(
        "batch_log_expired",
        pipeline=work.pipeline.name,
        first_offsets=name_offsets(gaps),
        scanned_to=name_offsets(work.history.scanned),
    )
    topic = name_log(work.pipeline)
    remaining = retention.remaining_offsets(offsets, work.earliest)
    complete_start = (
        retention.whole_from(starts, gaps, work.pipeline, lambda at: work.client.offsets_for_time(topic, at))
        if gaps.keys() <= remaining.keys()
        else None
    )
    if complete_start is None:
        # Nothing left bounds what is gone: it may belong to any window of which the stream has read a record.
        read = (select_last_window(window, at).start for at in work.target.record.max_event.values())
        complete_start = window.next_start(max([*starts, *read], default=limits.MIN_MICROS))
    newest_lost = None if isinstance(work.pipeline.batch, Sql) else _find_newest_lost(work, offsets, gaps)
    return (
        complete_start
        if newest_lost is None
        else min(complete_start, window.next_start(select_last_window(window, newest_lost).start))
    )


def _find_newest_lost(work: RunContext, offsets: Offsets, gaps: Mapping[int, int]) -> int | None:
    """Return an event time that no lost record is newer than, as the epochs tell; None: they do not."""
    target = work.target.record
    epochs = EpochLog(work.target.version.uri).records()
    records = [epoch for epoch in epochs if epoch.topic_id == target.topic_id and epoch.epoch <= target.epoch]
    return retention.find_newest_lost(records, offsets, gaps)


def _find_windows_ahead(work: RunContext) -> frozenset[int] | None:
    """Return the windows in which the batch table may hold more than the cut; None: the cut is the newest so far."""
    if not work.behind:
        return None
    log.info("batch_ahead_of_cut", pipeline=work.pipeline.name, epoch=work.target.record.epoch)
    return index.beyond(work.connection, work.target.record.end)


def _list_incomplete(work: RunContext, planned: RunPlan, first_complete: int) -> tuple[Incomplete, ...]:
    alone = tuple(
        Incomplete(window_start=start, window_end=end, reason=EXPIRED)
        for start, end in planned.expired
        if start >= first_complete and not is_touched(start, work.lost)
    )
    lost_entries = tuple(retention.make_lost_entry(starts, work.pipeline) for starts in work.lost)
    frozen_entries = (
        () if first_complete == limits.MIN_MICROS else (retention.make_frozen_entry(first_complete, work.pipeline),)
    )
    return (*frozen_entries, *lost_entries, *alone)
