"""Plan of a batch run: the windows that it computes, and those that are frozen. Pure.

A run computes windows that are closed at the cut and that a record touched since they were last computed. Windows that
have lost records to retention are frozen: what is left of them never replaces their rows. Ranges are
`[first window start, last window end)` in microseconds; a window is in a range only if it lies wholly inside.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.window_fn import (
    EARLIEST,
    LATEST,
    AlignedWindowFn,
    Interval,
    merge_intervals,
    select_last_window,
)
from cutover.lake.batch_runs import EXPIRED, LOST, BatchRun, Incomplete, Range
from cutover.lake.control.losses import Starts
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.journal_rows import Loss
from cutover.records.parsing import limits
from cutover.records.reading.scan import Offsets

Labelled = tuple[str, Interval]  # decision about a window
AHEAD, OPEN = "ahead", "open"
"""Reasons for not computing requested windows: batch has read beyond the cut; the windows are open at the cut."""

Lookup = Callable[[int], Mapping[int, int | None]]  # log time (microseconds) -> first offset not before it


@dataclass(frozen=True, slots=True, kw_only=True)
class TouchedWindow:
    """A window that holds records, and the newest scan that found one."""

    window: Interval
    scan: int  # ordinal of the run that scanned it, from 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBounds:
    """Bounds of a run: time at the cut, the requested range, and records that have left the log."""

    window: AlignedWindowFn
    closed: int | None  # windows that end by then are closed, microseconds; None: no window is
    requested: tuple[Range, ...] | None = None  # None: every dirty window
    expired: Callable[[int], bool] = lambda _: False  # window start -> a record of it has left the log
    ahead: frozenset[int] | None = (
        None  # the cut is an older one: nothing is computed, and these were computed beyond it
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """Closed windows of a run, by the decision about them."""

    compute: tuple[Interval, ...]  # ascending
    computed: tuple[Range, ...]  # contiguous ranges of `compute`
    stale: tuple[Range, ...]  # dirty, and not computed in this run
    expired: tuple[Interval, ...]  # dirty, and can no longer be computed
    skipped: Mapping[str, tuple[Range, ...]] = field(default_factory=dict)  # parts of the requested ranges, by reason


def plan(touches: Iterable[TouchedWindow], history: Sequence[Sequence[Range]], horizon: PlanBounds) -> RunPlan:
    """Sort the closed windows into those to compute, those left stale, and those that have expired.

    Args:
        touches: One per window, in any order.
        history: Ranges that the run of each scan computed; the index is the ordinal of the scan.
        horizon: With `wanted`, every closed window of these ranges is computed, clean ones too.
    """
    ordered = sorted(touches, key=lambda touch: touch.window)
    computed_by = _last_computed([touch.window for touch in ordered], history)
    labels = [
        (_label(touch.window, touch.scan > scan, horizon), touch.window)
        for touch, scan in zip(ordered, computed_by, strict=True)
    ]
    return RunPlan(
        compute=tuple(window for label, window in labels if label == "compute"),
        computed=_list_computed(labels, horizon),
        stale=_ranges(labels, "stale"),
        expired=tuple(window for label, window in labels if label == "expired"),
    )


def cover_recomputable(
    plan: RunPlan, former: Sequence[Range], bounds: PlanBounds, barriers: Iterable[Interval]
) -> RunPlan:
    """Extend a plan to every window that can be computed, so that rows of earlier runs without a record are cleared.

    Args:
        plan: Plan of a run that reads the whole log again.
        former: Ranges of windows that the batch table holds rows for; some may have no record left.
        bounds: The bounds of the plan.
        barriers: Ranges `[from, to)` of window starts that can no longer be computed: their rows stay.
    """
    held_ranges = [*former, *plan.computed]
    if bounds.closed is None or not held_ranges:
        return plan
    next_start, last_end = (
        min(start for start, _ in held_ranges),
        min(max(end for _, end in held_ranges), bounds.closed),
    )
    ranges: list[Range] = []
    for barrier in merge_intervals(barrier for barrier in barriers if barrier.start < barrier.end):
        if next_start < barrier.start:
            ranges.append((next_start, min(bounds.window.last_end_before(barrier.start), last_end)))
        next_start = max(next_start, barrier.end)
    ranges.append((next_start, last_end))
    if bounds.requested is not None:
        ranges = [(max(a, start), min(b, end)) for a, b in ranges for start, end in bounds.requested]
    return replace(plan, computed=tuple(span for span in ranges if holds_a_window(bounds.window, *span)))


def list_skipped(bounds: PlanBounds, barriers: Mapping[str, Sequence[Interval]]) -> dict[str, tuple[Range, ...]]:
    """List the parts of the requested ranges whose windows are not computed, by reason.

    Args:
        bounds: With `wanted`; without it nothing is left out.
        barriers: Reason -> ranges `[from, to)` of window starts that can no longer be computed.
    """
    requested = bounds.requested or ()
    if bounds.ahead is not None:
        return {AHEAD: requested} if requested else {}
    last_end, open_from = bounds.window.last_end_before, bounds.window.start_after
    spans = {
        reason: [(start, last_end(end)) for start, end in merge_intervals(starts) if start < end]
        for reason, starts in barriers.items()
    }
    spans[OPEN] = [(EARLIEST if bounds.closed is None else open_from(bounds.closed), LATEST)]
    parts = {
        reason: [(max(a, start), min(b, end)) for a, b in ranges for start, end in requested]
        for reason, ranges in spans.items()
    }
    complete_windows = {
        reason: tuple(part for part in ranges if holds_a_window(bounds.window, *part))
        for reason, ranges in parts.items()
    }
    return {reason: ranges for reason, ranges in complete_windows.items() if ranges}


def is_inside(window: Interval, span: Range) -> bool:
    """Return whether a window lies wholly inside a range."""
    return span[0] <= window.start and window.end <= span[1]


def holds_a_window(window: AlignedWindowFn, start: int, end: int) -> bool:
    """Return whether some window lies wholly between two times, microseconds."""
    if start >= end:
        return False
    earliest = select_last_window(window, start)
    if earliest.start < start:
        earliest = select_last_window(window, window.next_start(earliest.start))
    return is_inside(earliest, (start, end))


def _label(window: Interval, dirty: bool, horizon: PlanBounds) -> str:
    if horizon.closed is None or window.end > horizon.closed:
        return "open"
    if horizon.ahead is not None:
        return "stale" if dirty or window.start in horizon.ahead else "clean"
    is_requested = horizon.requested is not None and any(is_inside(window, span) for span in horizon.requested)
    if not dirty and (not is_requested or horizon.expired(window.start)):
        return "clean"
    if horizon.expired(window.start):
        return "expired"
    return "compute" if is_requested or horizon.requested is None else "stale"


def _list_computed(labels: list[Labelled], horizon: PlanBounds) -> tuple[Range, ...]:
    if horizon.requested is None:
        return _ranges(labels, "compute")
    ranges: list[Range] = []
    for span in horizon.requested:
        whole_range = _find_whole_range(labels, span, horizon)
        of_span = [(label, window) for label, window in labels if is_inside(window, span)]
        ranges += _ranges(of_span, "compute") if whole_range is None else (whole_range,)
    return tuple(ranges)


def _find_whole_range(labels: list[Labelled], requested: Range, horizon: PlanBounds) -> Range | None:
    """Return the closed part of a requested range if every window in it can be computed, even without records.

    Rows of windows without records are then cleared; computing only from the first touched window would keep them.
    """
    if horizon.closed is None or horizon.ahead is not None:
        return None
    start, end = requested[0], min(requested[1], horizon.closed)
    labels_within = [label for label, window in labels if is_inside(window, (start, end))]
    if not holds_a_window(horizon.window, start, end) or horizon.expired(start):
        return None
    return None if any(label != "compute" for label in labels_within) else (start, end)


def _last_computed(windows: Sequence[Interval], history: Sequence[Sequence[Range]]) -> list[int]:
    """Return for each window the ordinal of the latest scan whose run computed it; -1: none did."""
    positions = [-1] * len(windows)
    for scan, ranges in enumerate(history):
        for start, end in ranges:
            earliest = bisect_left(windows, start, key=lambda window: window.start)
            inner = slice(earliest, bisect_right(windows, end, key=lambda window: window.end))
            positions[inner] = [scan] * len(positions[inner])
    return positions


def _ranges(labels: Sequence[Labelled], requested_label: str) -> tuple[Range, ...]:
    """Join adjacent windows with one label to ranges of starts, first and last inclusive.

    A period without records does not split a range: it has no row in the batch table, and counts as covered.
    """
    runs = (list(run) for label, run in groupby(labels, key=lambda pair: pair[0]) if label == requested_label)
    return tuple((run[0][1].start, run[-1][1].end) for run in runs)


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
