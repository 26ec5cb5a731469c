"""Extent of a loss: offsets by partition, and the windows that may miss their records. Pure.

A record that counts in a window has a log timestamp of at least `window start - max_ahead`. Records lost before the
first remaining record therefore touch no window that starts after its log timestamp plus `max_ahead`, provided that log
timestamps rise with the offsets. The oldest event time of the lost records is unknown.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cutover.definition.model.pipeline import Pipeline
from cutover.lake.control.losses import Starts
from cutover.lake.epochs.delivery import OffsetGap
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.integrity.same_log import RewrittenPartition
from cutover.records.parsing import limits
from cutover.records.watermark import find_closed_end


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """Current state of the log, by partition."""

    topic_id: str
    earliest: Mapping[int, int]  # first offset that it still holds
    latest: Mapping[int, int]  # next offset
    first_times: Mapping[int, int]  # log timestamp of the first remaining record, microseconds; absent: none remains
    now: int  # microseconds: upper bound of the log timestamps of lost records

    def bound_log_time(self, partition: int) -> int:
        """Return an upper bound of the log timestamps of records lost before the first remaining one."""
        return self.first_times.get(partition, self.now)


@dataclass(frozen=True, slots=True, kw_only=True)
class LossExtent:
    """Offsets of one partition, and the touched windows by their starts; None: no window is touched."""

    topic_id: str
    partition: int
    first: int
    next: int | None  # None: the end of that log is unknown
    windows: Starts | None
    is_reassigned: bool = False  # the log assigns these offsets again, to other records


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenLog:
    """Partitions whose records changed after they were read, and the windows of all rows read since then."""

    changes: tuple[RewrittenPartition, ...] = ()
    windows: Starts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IncompleteRange:
    """Offsets `[first, next)` of one partition between which the log lacks records."""

    partition: int
    first: int
    next: int
    log_time: int  # of the first record behind the range, microseconds; the current time if there is none
    fed_from: int | None  # first start of the windows that epochs fed from the range, microseconds; None: none was fed


def compute_inner_losses(
    pipeline: Pipeline, record: EpochRecord | None, ranges: Sequence[IncompleteRange], topic_id: str
) -> tuple[LossExtent, ...]:
    """Compute the losses of a log that lacks records between its first and last offset.

    Windows that were not final at the newest epoch are touched, and so are those that epochs fed from the range: batch
    cannot recompute them.

    Args:
        pipeline: The definition.
        record: Newest epoch; None before the first.
        ranges: One for each partition that lacks records.
        topic_id: Topic id of the log.
    """
    watermark = None if record is None else record.watermark_after
    return tuple(
        LossExtent(
            topic_id=topic_id,
            partition=offset_range.partition,
            first=offset_range.first,
            next=offset_range.next,
            windows=_extend(find_affected_windows(pipeline, watermark, offset_range.log_time), pipeline, offset_range),
        )
        for offset_range in ranges
    )


def _extend(unread: Starts | None, pipeline: Pipeline, incomplete_range: IncompleteRange) -> Starts | None:
    """Extend the windows of unread lost records by those that were fed from the range."""
    fed = find_affected_windows(pipeline, None, incomplete_range.log_time)
    if incomplete_range.fed_from is None or fed is None or incomplete_range.fed_from >= fed[1]:
        return unread
    return min(incomplete_range.fed_from, fed[1] if unread is None else unread[0]), fed[1]


def compute_gap_losses(
    pipeline: Pipeline, record: EpochRecord | None, holes: Sequence[OffsetGap], log: LogState
) -> tuple[LossExtent, ...]:
    """Compute the losses of a log that continues at later offsets: windows not final at the newest epoch are touched.

    Args:
        pipeline: The definition.
        record: Newest epoch; None before the first.
        holes: Partitions that no longer hold the next offset; none of them is short.
        log: The log that continues.
    """
    watermark = None if record is None else record.watermark_after
    return tuple(
        LossExtent(
            topic_id=log.topic_id,
            partition=hole.partition,
            first=hole.expected,
            next=log.earliest[hole.partition],
            windows=find_affected_windows(pipeline, watermark, log.bound_log_time(hole.partition)),
        )
        for hole in holes
    )


def compute_losses_without_table(
    pipeline: Pipeline, holes: Sequence[OffsetGap], log: LogState, rewritten_log: RewrittenLog
) -> tuple[LossExtent, ...]:
    """Compute the losses of a new version over the same log: everything before the first remaining record.

    Args:
        pipeline: The definition.
        holes: Partitions whose end moved back: offsets that were read are assigned again, to other records.
        log: The log that it reads from its beginning.
        rewritten_log: Partitions whose records changed after they were read, with their exact offsets.
    """
    changed_partitions = {change.partition for change in rewritten_log.changes}
    short = (
        LossExtent(
            topic_id=log.topic_id,
            partition=hole.partition,
            first=hole.end or 0,
            next=None,
            windows=find_affected_windows(pipeline, None, log.now),
            is_reassigned=True,
        )
        for hole in holes
        if hole.is_short and hole.partition not in changed_partitions
    )
    other_gaps = (
        LossExtent(
            topic_id=log.topic_id,
            partition=change.partition,
            first=change.first,
            next=change.end,
            windows=rewritten_log.windows,
            is_reassigned=True,
        )
        for change in rewritten_log.changes
    )
    return (*_before(pipeline, log), *short, *other_gaps)


def compute_losses_of_new_log(
    pipeline: Pipeline, topic_id: str, unread: Mapping[int, int], newest: int | None, log: LogState
) -> tuple[LossExtent, ...]:
    """Compute the losses of a deleted log: everything it fed, since the new log cannot provide it.

    Args:
        pipeline: The definition.
        topic_id: Topic id of the deleted log.
        unread: Its partitions -> first unread offset.
        newest: Newest event time read from it, microseconds; None: none.
        log: The new log. Records missing at its beginning are lost too.
    """
    latest_time = max(log.first_times.values(), default=log.now)
    reach = max(latest_time + pipeline.lateness.max_ahead_micros, limits.MIN_MICROS if newest is None else newest)
    touched = find_affected_windows(pipeline, None, reach - pipeline.lateness.max_ahead_micros)
    old = (
        LossExtent(topic_id=topic_id, partition=partition, first=offset, next=None, windows=touched, is_reassigned=True)
        for partition, offset in sorted(unread.items())
    )
    return (*old, *(extent for extent in _before(pipeline, log) if extent.next))


def find_affected_windows(pipeline: Pipeline, watermark: int | None, newest_log_time: int) -> Starts | None:
    """Return the windows, by their starts, that may miss lost records and were not final.

    For sessions, which can begin anywhere, this is the period in which a session may miss records.

    Args:
        pipeline: Gives the windows, `allowed` and `max_ahead`.
        watermark: Windows that were final at it are not touched; None: every window is, from the beginning of time.
        newest_log_time: No lost record bears a later log timestamp.
    """
    window, latest = pipeline.window, newest_log_time + pipeline.lateness.max_ahead_micros
    last_final = find_closed_end(pipeline, watermark)
    end = window.end_of_starts(latest)
    first_start = limits.MIN_MICROS if last_final is None else window.start_after(last_final)
    return (first_start, end) if first_start < end else None


def _before(pipeline: Pipeline, log: LogState) -> Iterator[LossExtent]:
    for partition, offset in sorted(log.earliest.items()):
        touched = find_affected_windows(pipeline, None, log.bound_log_time(partition)) if offset else None
        yield LossExtent(topic_id=log.topic_id, partition=partition, first=0, next=offset, windows=touched)
