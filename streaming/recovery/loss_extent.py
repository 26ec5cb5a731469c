"""What a loss comes to: offsets by partition, and the windows that may miss their records. Pure.

A record of a window that counts bears a log timestamp of at least `window start - max_ahead`, so what was lost before
the first record that is left touches no window that starts later than its log timestamp and `max_ahead`. That holds as
far as log timestamps rise with the offsets; how far back a lost record's event time went, nobody can know.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cutover.definition.model.pipeline import Pipeline
from cutover.lake.control.losses import Starts
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.epochs.offset_gaps import OffsetGap
from cutover.lake.integrity.same_log import RewrittenPartition
from cutover.records.closing import find_closed_end
from cutover.records.parsing import limits


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """The log as it is, by partition."""

    topic_id: str
    earliest: Mapping[int, int]  # first offset that it still holds
    latest: Mapping[int, int]  # next offset
    first_times: Mapping[int, int]  # log timestamp of the first record left, microseconds; absent: none is left
    now: int  # microseconds: nothing lost is younger

    def bound_log_time(self, partition: int) -> int:
        """Return a time that is not before the log timestamp of any record lost before the first one left."""
        return self.first_times.get(partition, self.now)


@dataclass(frozen=True, slots=True, kw_only=True)
class LossExtent:
    """Offsets of one partition, and the touched windows by their starts; None: no window is touched."""

    topic_id: str
    partition: int
    first: int
    next: int | None  # None: nobody knows how far that log went
    windows: Starts | None
    again: bool = False  # the log gives them once more, with other records


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenLog:
    """What a log holds otherwise than it was read, and the windows of all that was read since then."""

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


def inside(
    pipeline: Pipeline, record: EpochRecord | None, ranges: Sequence[IncompleteRange], topic_id: str
) -> tuple[LossExtent, ...]:
    """Return what is lost where a log lacks records between others.

    Windows that were not final at the newest epoch are touched, and those that epochs fed from the range: batch cannot
    recompute them.

    Args:
        pipeline: The definition.
        record: Newest epoch; None before the first.
        ranges: One for each partition that lacks records.
        topic_id: Of the log.
    """
    watermark = None if record is None else record.watermark_after
    return tuple(
        LossExtent(
            topic_id=topic_id,
            partition=offset_range.partition,
            first=offset_range.first,
            next=offset_range.next,
            windows=_extend(windows(pipeline, watermark, offset_range.log_time), pipeline, offset_range),
        )
        for offset_range in ranges
    )


def _extend(unread: Starts | None, pipeline: Pipeline, incomplete_range: IncompleteRange) -> Starts | None:
    """Return the windows of lost records that were not read, together with those that were fed from the range."""
    fed = windows(pipeline, None, incomplete_range.log_time)
    if incomplete_range.fed_from is None or fed is None or incomplete_range.fed_from >= fed[1]:
        return unread
    return min(incomplete_range.fed_from, fed[1] if unread is None else unread[0]), fed[1]


def behind(
    pipeline: Pipeline, record: EpochRecord | None, holes: Sequence[OffsetGap], log: LogState
) -> tuple[LossExtent, ...]:
    """Return what is lost where the same log goes on further ahead: windows not final at the newest epoch are touched.

    Args:
        pipeline: The definition.
        record: Newest epoch; None before the first.
        holes: Partitions that no longer hold what comes next; none of them is short.
        log: The log that goes on.
    """
    watermark = None if record is None else record.watermark_after
    return tuple(
        LossExtent(
            topic_id=log.topic_id,
            partition=hole.partition,
            first=hole.expected,
            next=log.earliest[hole.partition],
            windows=windows(pipeline, watermark, log.bound_log_time(hole.partition)),
        )
        for hole in holes
    )


def without_table(
    pipeline: Pipeline, holes: Sequence[OffsetGap], log: LogState, rewritten_log: RewrittenLog
) -> tuple[LossExtent, ...]:
    """Return what a new version over the same log cannot read: what went before the first record left.

    Args:
        pipeline: The definition.
        holes: Partitions whose end went back: offsets that were read come again, and with them other records.
        log: The log that it reads from its beginning.
        rewritten_log: Partitions that hold other records than those that were read, where that is known more exactly.
    """
    changed_partitions = {change.partition for change in rewritten_log.changes}
    short = (
        LossExtent(
            topic_id=log.topic_id,
            partition=hole.partition,
            first=hole.end or 0,
            next=None,
            windows=windows(pipeline, None, log.now),
            again=True,
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
            again=True,
        )
        for change in rewritten_log.changes
    )
    return (*_before(pipeline, log), *short, *other_gaps)


def with_log(
    pipeline: Pipeline, topic_id: str, unread: Mapping[int, int], newest: int | None, log: LogState
) -> tuple[LossExtent, ...]:
    """Return what is lost with a log that is gone: all that it fed, since the new one cannot give it again.

    Args:
        pipeline: The definition.
        topic_id: Of the log that is gone.
        unread: Its partitions -> first offset that nobody has read.
        newest: Newest event time that it was seen to hold, microseconds; None: none.
        log: The new log. What it does not hold of its own beginning is lost, too.
    """
    latest_time = max(log.first_times.values(), default=log.now)
    reach = max(latest_time + pipeline.lateness.max_ahead_micros, limits.MIN_MICROS if newest is None else newest)
    touched = windows(pipeline, None, reach - pipeline.lateness.max_ahead_micros)
    old = (
        LossExtent(topic_id=topic_id, partition=partition, first=offset, next=None, windows=touched, again=True)
        for partition, offset in sorted(unread.items())
    )
    return (*old, *(extent for extent in _before(pipeline, log) if extent.next))


def windows(pipeline: Pipeline, watermark: int | None, newest_log_time: int) -> Starts | None:
    """Return the windows, by their starts, that may miss lost records and were not final.

    Of sessions, which begin anywhere: the stretch of time, by whose touch a session may miss some.

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
        touched = windows(pipeline, None, log.bound_log_time(partition)) if offset else None
        yield LossExtent(topic_id=log.topic_id, partition=partition, first=0, next=offset, windows=touched)
