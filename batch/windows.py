"""Which windows this run computes: what the index and the log say, handed to the pure plan."""

from batch import dirty, index, retention
from batch.dirty import Horizon, Plan
from batch.work import Work
from cutover.events import log
from cutover.lake.batch_runs import EXPIRED, Incomplete
from cutover.lake.losses import is_touched
from cutover.records import limits
from cutover.records.read import Offsets


def plan_windows(work: Work, offsets: Offsets) -> tuple[Plan, tuple[Incomplete, ...]]:
    """Return the run's plan, and every window that is known to have lost records.

    Args:
        work: With the scan staged and its ranges bound.
        offsets: What no run had scanned, lost records included.
    """
    touches = index.touches(work.connection)
    whole_from = _whole_from(work, offsets, sorted(touch.window.start for touch in touches))
    gone = index.expired_windows(work.connection, work.earliest, work.scan)
    horizon = Horizon(
        window=work.pipeline.window,
        closed=dirty.closed_at(work.pipeline, work.target.record.watermark_after),
        wanted=work.wanted,
        expired=lambda start: start < whole_from or start in gone or is_touched(start, work.lost),
        ahead=_ahead(work),
    )
    planned = dirty.plan(touches, [run.computed for run in work.history.runs], horizon)
    return planned, _incomplete(work, planned, whole_from)


def _whole_from(work: Work, offsets: Offsets, starts: list[int]) -> int:
    """Return the start before which windows may have lost records that nobody scanned."""
    known = [entry for run in work.history.runs[-1:] for entry in run.incomplete]
    floor = max((retention.frozen_before(entry, work.pipeline) for entry in known), default=limits.MIN_MICROS)
    mine = [loss for loss in work.recorded if loss.topic_id == work.target.record.topic_id]
    gaps = retention.unrecorded(retention.lost(offsets, work.earliest), offsets, mine)
    if not gaps:
        return floor
    log.warning("batch_log_expired", pipeline=work.pipeline.name, first_offsets=gaps, scanned_to=work.history.scanned)
    topic = work.pipeline.source.name
    left = retention.left(offsets, work.earliest)
    found = (
        retention.whole_from(starts, gaps, work.pipeline, lambda at: work.client.offsets_for_time(topic, at))
        if gaps.keys() <= left.keys()
        else None
    )
    beyond = work.pipeline.window.following(max(starts, default=limits.MIN_MICROS))
    return max(floor, beyond if found is None else found)


def _ahead(work: Work) -> frozenset[int] | None:
    """Return the windows in which the batch table may hold more than the cut; None: the cut is the newest so far."""
    if not work.behind:
        return None
    log.info("batch_ahead_of_cut", pipeline=work.pipeline.name, epoch=work.target.record.epoch)
    return index.beyond(work.connection, work.target.record.end)


def _incomplete(work: Work, planned: Plan, whole_from: int) -> tuple[Incomplete, ...]:
    alone = tuple(
        Incomplete(window_start=start, window_end=end, reason=EXPIRED)
        for start, end in planned.expired
        if start >= whole_from and not is_touched(start, work.lost)
    )
    lost = tuple(retention.lost_windows(starts, work.pipeline) for starts in work.lost)
    before = () if whole_from == limits.MIN_MICROS else (retention.frozen(whole_from, work.pipeline),)
    return (*before, *lost, *alone)
