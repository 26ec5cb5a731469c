"""Windows that a run computes: closed at the cut, and touched by a record since they were last computed. Pure.

Ranges are `[first window start, last window end)` in microseconds; a window lies in one if it lies wholly inside.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from cutover.definition.windows.window_fn import (
    EARLIEST,
    LATEST,
    AlignedWindowFn,
    Interval,
    merge_intervals,
    select_last_window,
)
from cutover.lake.batch_runs import Range

Labelled = tuple[str, Interval]  # decision about a window
AHEAD, OPEN = "ahead", "open"
"""Reasons for not computing requested windows: batch has read beyond the cut; the windows are open at the cut."""


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
