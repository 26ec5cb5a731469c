"""Windows that a run computes: inputs of the pure plan, from the index and the log."""

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
    planned = dirty.plan(touches, [run.computed for run in work.history.runs], bounds)
    expired = [
        Interval(limits.MIN_MICROS, first_complete),
        *(Interval(start, window.next_start(start)) for start in expired_windows),
    ]
    lost_intervals = [Interval(*starts) for starts in work.lost_windows]
    if work.replaces_earlier_runs or work.anew:
        planned = dirty.cover_recomputable(planned, work.held_ranges, bounds, [*expired, *lost_intervals])
    skipped = dirty.list_skipped(bounds, {LOST: lost_intervals, EXPIRED: expired})
    return replace(planned, skipped=skipped), _list_incomplete(work, planned, first_complete)


def find_frozen_before(work: RunContext) -> int:
    """Return the start before which windows have expired, from the latest run."""
    known_incomplete = [entry for run in work.history.runs[-1:] for entry in run.incomplete]
    return max(
        (retention.parse_frozen_before(entry, work.pipeline) for entry in known_incomplete), default=limits.MIN_MICROS
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
        retention.find_complete_start(starts, gaps, work.pipeline, lambda at: work.client.offsets_for_time(topic, at))
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
    return retention.find_newest_lost(records, offsets, gaps)


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
    lost_entries = tuple(retention.make_lost_entry(starts, work.pipeline) for starts in work.lost_windows)
    frozen_entries = (
        () if first_complete == limits.MIN_MICROS else (retention.make_frozen_entry(first_complete, work.pipeline),)
    )
    return (*frozen_entries, *lost_entries, *alone)
