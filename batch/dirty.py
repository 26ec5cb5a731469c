"""Which windows a run computes: closed at the cut, and touched by a record since they were last computed. Pure.

Ranges are `[first window start, last window end)` in microseconds; a window lies in one if it lies wholly inside.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from cutover.definition.pipeline import Pipeline
from cutover.lake.batch_runs import Range


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """A window that holds records, and the newest scan that found one."""

    start: int  # microseconds
    scan: int  # ordinal of the run that scanned it, from 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """What bounds a run: time at the cut, the wanted range, and what the log can no longer give."""

    size: int  # of a window, microseconds
    closed: int | None  # newest start of a closed window; None: no window is closed
    wanted: Range | None = None  # None: every dirty window
    expired: Callable[[int], bool] = lambda _: False  # window start -> a record of it has left the log
    ahead: frozenset[int] | None = (
        None  # the cut is an older one: nothing is computed, and these were computed beyond it
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The closed windows of a run, by what becomes of them."""

    compute: tuple[int, ...]  # starts, ascending
    computed: tuple[Range, ...]  # the runs of `compute` that follow one another without another window between
    stale: tuple[Range, ...]  # dirty, and left alone
    expired: tuple[int, ...]  # starts; dirty, and not to be computed any more


def closed_start(pipeline: Pipeline, watermark: int | None) -> int | None:
    """Return the start of the newest window that is closed at a watermark: `window_end + allowed <= watermark`."""
    if watermark is None:
        return None
    return watermark - pipeline.lateness.allowed_micros - pipeline.window.size


def plan(touches: Iterable[Touch], history: Sequence[Sequence[Range]], horizon: Horizon) -> Plan:
    """Sort the closed windows into those to compute, those left stale, and those that have expired.

    Args:
        touches: One a window, in any order.
        history: What each scan's run computed; the index is the scan's ordinal.
        horizon: With `wanted`, every closed window of that range is computed, clean ones too.
    """
    ordered = sorted(touches, key=lambda touch: touch.start)
    computed_by = _last_computed([touch.start for touch in ordered], history, horizon.size)
    labels = [
        (_label(touch, touch.scan > scan, horizon), touch.start)
        for touch, scan in zip(ordered, computed_by, strict=True)
    ]
    whole = _whole(labels, horizon)
    return Plan(
        compute=tuple(start for label, start in labels if label == "compute"),
        computed=_ranges(labels, "compute", horizon.size) if whole is None else (whole,),
        stale=_ranges(labels, "stale", horizon.size),
        expired=tuple(start for label, start in labels if label == "expired"),
    )


def inside(start: int, size: int, ranges: Iterable[Range]) -> bool:
    """Return whether a window lies wholly inside one of the ranges."""
    return any(first <= start and start + size <= end for first, end in ranges)


def _label(touch: Touch, dirty: bool, horizon: Horizon) -> str:
    if horizon.closed is None or touch.start > horizon.closed:
        return "open"
    if horizon.ahead is not None:
        return "stale" if dirty or touch.start in horizon.ahead else "clean"
    wanted = horizon.wanted is not None and inside(touch.start, horizon.size, (horizon.wanted,))
    if not dirty and (not wanted or horizon.expired(touch.start)):
        return "clean"
    if horizon.expired(touch.start):
        return "expired"
    return "compute" if wanted or horizon.wanted is None else "stale"


def _whole(labels: Sequence[tuple[str, int]], horizon: Horizon) -> Range | None:
    """Return the closed part of the wanted range, if every window in it can be computed: those without a record too.

    Rows that lie there without a record are cleared; to compute only from the first touched window on would keep them.
    """
    if horizon.wanted is None or horizon.closed is None or horizon.ahead is not None:
        return None
    first, end = horizon.wanted[0], min(horizon.wanted[1], horizon.closed + horizon.size)
    within = [label for label, start in labels if inside(start, horizon.size, ((first, end),))]
    if end - first < horizon.size or horizon.expired(first) or any(label != "compute" for label in within):
        return None
    return first, end


def _last_computed(starts: Sequence[int], history: Sequence[Sequence[Range]], size: int) -> list[int]:
    """Return the ordinal of the newest scan whose run computed each window; -1: none did."""
    newest = [-1] * len(starts)
    for scan, ranges in enumerate(history):
        for first, end in ranges:
            inner = slice(bisect_left(starts, first), bisect_right(starts, end - size))
            newest[inner] = [scan] * len(newest[inner])
    return newest


def _ranges(labels: Sequence[tuple[str, int]], wanted: str, size: int) -> tuple[Range, ...]:
    """Return the runs of a label.

    A stretch of time that no record touched splits no run: it holds no row on the batch side, and counts as covered.
    """
    runs = (list(run) for label, run in groupby(labels, key=lambda pair: pair[0]) if label == wanted)
    return tuple((run[0][1], run[-1][1] + size) for run in runs)
