"""Panes of a stream: each epoch's end evaluates the triggers of all windows, and commits the emitted rows.

The rows of one window and key that an epoch brings are one arrival. They come before the watermark moves; then whatever
is ready fires. State between epochs is a cache: each change of it is a row of the same commit.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.triggers import Trigger
from cutover.definition.windows.window_fn import FOREVER, Interval
from cutover.panes.held_windows import Arrival, Contents, Held, HeldWindows, Rules
from cutover.panes.model import Key, Pane
from cutover.streaming.panes import values


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeProgress:
    """Progress of time in one epoch, microseconds: processing time, and watermarks before and after it."""

    now: int
    watermark_before: int | None
    watermark_after: int | None
    settles: bool = True  # False: more rows of this moment follow, so only triggers that count rows may fire
    epoch_ends: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Emission:
    """Result of an epoch's end: panes in order, changed windows, arrivals that no pane will show."""

    panes: tuple[Pane, ...] = ()
    # None: part of another session
    changed_windows: Mapping[tuple[Key, Interval], Held | None] = field(default_factory=dict)
    dropped: tuple[Arrival, ...] = ()
    touched: frozenset[tuple[Key, Interval]] = frozenset()  # windows that received rows since an epoch ended


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredWindows:
    """Windows that can still fire, as restored from an epoch log."""

    windows: tuple[Held, ...]
    backlog: tuple[Arrival, ...] = ()  # rows that come with the next epoch


class PaneOperator:
    """The windows of one driver. After `end_epoch` the caller must commit the emission, or discard this object."""

    def __init__(self, pipeline: Pipeline, trigger: Trigger, *, forgets: bool = True) -> None:
        self._pipeline, self._forgets = pipeline, forgets
        nothing = (values.of_nothing(pipeline),)
        self._board = HeldWindows(
            Rules(
                trigger=trigger,
                accumulation=pipeline.accumulation,
                is_sessions=pipeline.window.merges,
                value=lambda contents: contents or nothing,
            )
        )
        self._backlog: tuple[Arrival, ...] = ()

    @property
    def due(self) -> int | None:
        """Return when an epoch must end without new rows: at the end of a period, or at once after a restart."""
        return -FOREVER if self._backlog else self._board.due

    def restore(self, restored: RestoredWindows) -> None:
        """Restore the windows of earlier epochs."""
        for held_window in restored.windows:
            self._board.restore(held_window)
        self._backlog = restored.backlog

    def end_epoch(self, accepted: pa.Table, passing: TimeProgress) -> Emission:
        """End an epoch.

        Args:
            accepted: Its partial aggregates of class accepted.
            passing: Its time.
        """
        board, watermark = self._board, -FOREVER if passing.watermark_before is None else passing.watermark_before
        arrivals = values.merge_arrivals([*self._backlog, *values.arrivals(accepted, self._pipeline)], self._pipeline)
        self._backlog = ()
        dropped = [arrival for arrival in arrivals if not board.add_rows(arrival, now=passing.now, watermark=watermark)]
        watermark_after = max(watermark, -FOREVER if passing.watermark_after is None else passing.watermark_after)
        if passing.settles:
            board.settle(
                now=passing.now,
                old_watermark=watermark,
                new_watermark=watermark_after,
                epoch_ends=passing.epoch_ends,
            )
        emission = self._fold_emission(
            Emission(panes=tuple(board.panes), changed_windows=dict(board.changed), dropped=tuple(dropped))
        )
        emission = replace(emission, touched=board.touched)
        board.panes.clear()
        board.changed.clear()
        if passing.settles and self._forgets and watermark < watermark_after:
            board.evict(
                lambda state: state.due is None and values.is_closed(self._pipeline, state.window, watermark_after)
            )
        return emission

    def _fold_emission(self, emission: Emission) -> Emission:
        """Fold the partial aggregates of an emission into one each, also in the held windows."""
        held_windows = [window for window in emission.changed_windows.values() if window is not None]
        pane_values = [
            pane.value for pane in (*emission.panes, *(pane for window in held_windows for pane in window.panes))
        ]
        contents = [carrier.contents for carrier in held_windows] + [carrier.contents for carrier in emission.dropped]
        short = values.make_fold_function(self._pipeline, [*pane_values, *contents])
        changed_windows = {
            p: None if window is None else _fold_held(window, short) for p, window in emission.changed_windows.items()
        }
        for held_window in changed_windows.values():
            if held_window is not None:
                self._board.rewrite(held_window)
        return Emission(
            panes=tuple(replace(pane, value=short(pane.value)) for pane in emission.panes),
            changed_windows=changed_windows,
            dropped=tuple(replace(arrival, contents=short(arrival.contents)) for arrival in emission.dropped),
        )


def _fold_held(held_window: Held, short: Callable[[Contents], Contents]) -> Held:
    panes = tuple(replace(pane, value=short(pane.value)) for pane in held_window.panes)
    return replace(held_window, contents=short(held_window.contents), panes=panes)
