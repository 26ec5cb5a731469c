"""State of one window and key between its firings. Frozen: adding rows and firing return the next state."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

from cutover.definition.model.triggers import Accumulation, Trigger
from cutover.definition.windows.window_fn import Interval, merge_intervals
from cutover.panes.machine import Ended, Machine, TriggerMoment, merge
from cutover.panes.model import Key, Pane, Timing, has_passed, in_order

Contents = tuple[Any, ...]
"""Input of a pane: rows, or partial aggregates of rows. The order never matters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Rules by which windows accumulate rows and fire."""

    trigger: Trigger
    accumulation: Accumulation
    is_sessions: bool
    value: Callable[[Contents], object]  # of a pane
    merge: Callable[[Contents, Contents], Contents] = add  # contents of one window; the order never matters


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """Rows of one window and key that arrive together."""

    window: Interval  # of a session: the window of these rows alone
    key: Key
    contents: Contents
    rows: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """State of one window and key."""

    window: Interval
    key: Key
    machine: Machine | Ended
    contents: Contents = ()  # of the next pane: all rows, or (discarding) those that no pane has shown
    fresh: int = 0  # rows that no pane has shown
    is_punctual: bool = False  # a fresh row arrived before the watermark passed the end of the window
    panes: tuple[Pane, ...] = ()  # that the next firing retracts: one, or one for each merged session
    firings: int = 0

    @property
    def due(self) -> int | None:
        """Return the processing time at which the clock alone can make the window fire."""
        return None if isinstance(self.machine, Ended) else self.machine.due

    def is_due(self, now: int) -> bool:
        """Return whether a timer is set and has expired."""
        return self.due is not None and self.due <= now


def join_rows(rules: Rules, states: Sequence[Held], arrival: Arrival, watermark: int) -> Held:
    """Return the state to which rows will be added, after sessions that they bridge are merged.

    Args:
        rules: The trigger.
        states: State of the window: none, one, or one for each session that the rows bridge.
        arrival: Provides window and key.
        watermark: Watermark as the rows arrive.

    Source:
        The Dataflow Model, section 2.2.2 (window merging).
    """
    if len(states) == 1 and states[0].window == arrival.window:
        return states[0]  # the most frequent case: nothing merges, and the end of the window does not move
    (window,) = merge_intervals([arrival.window, *(state.window for state in states)])
    parts = sorted(states, key=lambda state: state.window)
    return Held(
        window=window,
        key=arrival.key,
        machine=merge(rules.trigger, [part.machine for part in parts], is_past_end=has_passed(watermark, window)),
        contents=reduce(rules.merge, (part.contents for part in parts), ()),
        fresh=sum(part.fresh for part in parts),
        is_punctual=any(part.is_punctual for part in parts),
        panes=tuple(pane for part in parts for pane in part.panes),
        firings=max((part.firings for part in parts), default=0),
    )


def with_rows(rules: Rules, state: Held, arrival: Arrival, *, now: int, watermark: int) -> Held | None:
    """Return the state after more rows; None if the trigger has ended."""
    if isinstance(state.machine, Ended):
        return None
    return Held(
        window=state.window,
        key=state.key,
        machine=state.machine.with_rows(now, arrival.rows),
        contents=rules.merge(state.contents, arrival.contents),
        fresh=state.fresh + arrival.rows,
        is_punctual=state.is_punctual or not has_passed(watermark, state.window),
        panes=state.panes,
        firings=state.firings,
    )


def is_ready(state: Held, moment: TriggerMoment) -> bool:
    """Return whether a window fires; False once its trigger has ended."""
    return not isinstance(state.machine, Ended) and state.machine.is_ready(moment)


def fire(rules: Rules, state: Held, moment: TriggerMoment) -> tuple[Held, tuple[Pane, ...]]:
    """Return the state after a firing, and the panes that it emits: retractions by window, then the value.

    A firing without fresh rows emits a pane only for `AtWatermark(always=True)`; the trigger fires in any case.

    Source:
        The Dataflow Model, section 2.3 (discarding, accumulating, accumulating and retracting).
    """
    if isinstance(state.machine, Ended):
        return state, ()
    machine = state.machine.fire_at(moment)
    if not state.fresh and not state.machine.fires_without_rows(moment):
        return replace(state, machine=machine), ()
    pane = Pane(
        window=state.window,
        key=state.key,
        value=rules.value(state.contents),
        timing=_timing(state, moment),
        index=state.firings,
        processing_time=moment.now,
    )
    retracts = rules.accumulation is Accumulation.RETRACTING
    retractions = tuple(_make_retraction(old, pane) for old in state.panes) if retracts else ()
    fired = Held(
        window=state.window,
        key=state.key,
        machine=machine,
        contents=() if rules.accumulation is Accumulation.DISCARDING else state.contents,
        panes=(pane,),
        firings=state.firings + 1,
    )
    return fired, (*retractions, pane)


def place(state: Held) -> tuple[int, int, str, str]:
    """Return the sort key of windows that fire at one moment: end, start, key."""
    return in_order(state.window, state.key)


def _timing(state: Held, moment: TriggerMoment) -> Timing:
    if not moment.is_past_end:
        return Timing.EARLY
    return Timing.ON_TIME if state.is_punctual or not state.fresh else Timing.LATE


def _make_retraction(old: Pane, pane: Pane) -> Pane:
    return replace(old, timing=pane.timing, index=pane.index, processing_time=pane.processing_time, is_retraction=True)
