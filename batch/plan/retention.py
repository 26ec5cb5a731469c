"""Windows that have lost records to retention: they are frozen, and never replaced by what is left of them."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from cutover.definition.model.pipeline import Pipeline
from cutover.lake.batch_runs import EXPIRED, LOST, BatchRun, Incomplete
from cutover.lake.control.losses import Starts
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.journal_rows import Loss
from cutover.records.parsing import limits
from cutover.records.reading.scan import Offsets

Lookup = Callable[[int], Mapping[int, int | None]]  # log time (microseconds) -> first offset not before it


def first_left(offsets: Offsets, earliest: Mapping[int, int]) -> dict[int, int]:
    """Return the first remaining offset of each partition that lost records before they were scanned."""
    return {p: earliest.get(p, 0) for p, (start, _) in offsets.items() if earliest.get(p, 0) > start}


def remaining_offsets(offsets: Offsets, earliest: Mapping[int, int]) -> Offsets:
    """Restrict offset ranges to what retention kept; partitions without any are dropped."""
    remaining = {p: (max(start, earliest.get(p, 0)), end) for p, (start, end) in offsets.items()}
    return {p: span for p, span in remaining.items() if span[0] < span[1]}


def find_unrecorded_gaps(gaps: Mapping[int, int], offsets: Offsets, losses: Iterable[Loss]) -> dict[int, int]:
    """Find the gaps that recorded losses do not cover: records that only the stream has read.

    Args:
        gaps: What `first_left` returns: partition -> first offset left.
        offsets: Offsets that no run had scanned.
        losses: Losses of this log.
    """
    next_offsets = {partition: offsets[partition][0] for partition in gaps}
    for loss in sorted(losses, key=lambda loss: loss.first):
        if loss.next is not None and not loss.again and loss.first <= next_offsets.get(loss.partition, -1):
            next_offsets[loss.partition] = max(next_offsets[loss.partition], loss.next)
    return {partition: gap for partition, gap in gaps.items() if next_offsets[partition] < gap}


def is_outdated(run: BatchRun, losses: Iterable[Loss]) -> bool:
    """Return whether a loss was accepted after a run, in which its log was replaced or reassigned its offsets."""
    return any(
        loss.again and loss.stream_version > run.stream_version and loss.topic_id == run.topic_id for loss in losses
    )


def find_complete_start(
    starts: Sequence[int], gaps: Mapping[int, int], pipeline: Pipeline, lookup: Lookup
) -> int | None:
    """Find the first window start from which every window still has all its records.

    A record that counts in a window has a log timestamp of at least `window start - max_ahead`. If the first such
    offset is after the first retained one, the lost records are older than the window, as far as log timestamps show.

    Args:
        starts: Window starts, ascending.
        gaps: Partition -> first retained offset, of partitions that lost records; each still holds one before the cut.
        pipeline: Definition with `max_ahead`.
        lookup: Finds offsets by time in the log.

    Returns:
        One of `starts`; None: no window is known to be complete.
    """
    low, high = 0, len(starts)
    while low < high:
        middle = (low + high) // 2
        if _holds_all(lookup(starts[middle] - pipeline.lateness.max_ahead_micros), gaps):
            high = middle
        else:
            low = middle + 1
    return starts[low] if low < len(starts) else None


def find_newest_lost(records: Sequence[EpochRecord], offsets: Offsets, gaps: Mapping[int, int]) -> int | None:
    """Find an upper bound for the event time of lost records that count; the stream has read all of them.

    An epoch records the newest event time of each partition so far, of all records except malformed and future ones,
    which count on neither path. The epoch that reached the first retained record bounds all records before it.

    Args:
        records: All epochs up to the cut, by number, of the log that lost the records.
        offsets: Offsets that no run had scanned, from the first one.
        gaps: Partition -> first retained offset.

    Returns:
        Microseconds; `MIN_MICROS` if no lost record counts. None: epochs do not cover the gaps.
    """
    newest = limits.MIN_MICROS
    for partition, gap in gaps.items():
        start, end = offsets[partition]
        later_records = [record for record in records if record.end.get(partition, 0) >= min(gap, end)]
        if not later_records or records[0].start.get(partition, 0) > start:
            return None
        newest = max(newest, later_records[0].max_event.get(partition, limits.MIN_MICROS))
    return newest


def make_frozen_entry(frozen_before: int, pipeline: Pipeline) -> Incomplete:
    """Return the entry that covers every window that starts before a time."""
    return Incomplete(
        window_start=limits.MIN_MICROS, window_end=pipeline.window.last_end_before(frozen_before), reason=EXPIRED
    )


def make_lost_entry(starts: Starts, pipeline: Pipeline) -> Incomplete:
    """Return the entry that covers the windows touched by recorded losses, by their starts `[from, to)`."""
    return Incomplete(window_start=starts[0], window_end=pipeline.window.last_end_before(starts[1]), reason=LOST)


def parse_frozen_before(entry: Incomplete, pipeline: Pipeline) -> int:
    """Return the time that `make_frozen_entry` received; `MIN_MICROS` for any other entry."""
    if entry.window_start != limits.MIN_MICROS or entry.reason != EXPIRED:
        return limits.MIN_MICROS
    return pipeline.window.start_after(entry.window_end)


def _holds_all(offsets_by_partition: Mapping[int, int | None], gaps: Mapping[int, int]) -> bool:
    # None: every retained record is older than that, and the lost ones are older still.
    offsets = ((offsets_by_partition.get(partition), gap) for partition, gap in gaps.items())
    return all(offset is None or offset > first_gap for offset, first_gap in offsets)
