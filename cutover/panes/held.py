"""What is held of one window and key between its firings. Frozen; taking rows and firing return the next state."""

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
"""What a pane is of: rows, or what stands for rows. The order never matters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How windows are handled."""

    trigger: Trigger
    accumulation: Accumulation
    is_sessions: bool
    value: Callable[[Contents], object]  # of a pane
    merge: Callable[[Contents, Contents], Contents] = add  # contents of one window; the order never matters


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """Rows of one window and key that come at once."""

    window: Interval  # of a session, that of the rows alone
    key: Key
    contents: Contents
    rows: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One window of one key."""

    window: Interval
    key: Key
    machine: Machine | Ended
    contents: Contents = ()  # of the next pane: everything, or (discarding) what no pane has shown
    fresh: int = 0  # rows that no pane has shown
    is_punctual: bool = False  # one of the fresh rows came before the watermark passed the end of the window
    panes: tuple[Pane, ...] = ()  # that a retraction must take back: one, and of merged sessions one each
    firings: int = 0

    @property
    def due(self) -> int | None:
        """Return when the clock alone can make it fire."""
        return None if isinstance(self.machine, Ended) else self.machine.due

    def is_due(self, now: int) -> bool:
        """Compare with the next moment; False while none is set."""
        return self.due is not None and self.due <= now


def join_rows(rules: Rules, several: Sequence[Held], arrival: Arrival, watermark: int) -> Held:
    """Return the state that rows fall into, before they are added.

    Args:
        rules: The trigger.
        several: What is held of the window: nothing, one, or the sessions that the rows bridge.
        arrival: Its window and key.
        watermark: As the rows arrive.

    Source:
        The Dataflow Model, section 2.2.2 (window merging).
    """
    if len(several) == 1 and several[0].window == arrival.window:
        return several[0]  # the most frequent case; nothing merges, and the watermark has passed what it had passed
    (whole,) = merge_intervals([arrival.window, *(one.window for one in several)])
    parts = sorted(several, key=lambda one: one.window)
    return Held(
        window=whole,
        key=arrival.key,
        machine=merge(rules.trigger, [part.machine for part in parts], passed=has_passed(watermark, whole)),
        contents=reduce(rules.merge, (part.contents for part in parts), ()),
        fresh=sum(part.fresh for part in parts),
        is_punctual=any(part.is_punctual for part in parts),
        panes=tuple(pane for part in parts for pane in part.panes),
        firings=max((part.firings for part in parts), default=0),
    )


def with_rows(rules: Rules, held: Held, arrival: Arrival, *, now: int, watermark: int) -> Held | None:
    """Return the state after more rows; None where the trigger has come to its end."""
    if isinstance(held.machine, Ended):
        return None
    return Held(
        window=held.window,
        key=held.key,
        machine=held.machine.with_rows(now, arrival.rows),
        contents=rules.merge(held.contents, arrival.contents),
        fresh=held.fresh + arrival.rows,
        is_punctual=held.is_punctual or not has_passed(watermark, held.window),
        panes=held.panes,
        firings=held.firings,
    )


def is_ready(held: Held, moment: TriggerMoment) -> bool:
    """Return whether a window fires; never, once its trigger has come to its end."""
    return not isinstance(held.machine, Ended) and held.machine.is_ready(moment)


def fire(rules: Rules, held: Held, moment: TriggerMoment) -> tuple[Held, tuple[Pane, ...]]:
    """Return the state after a firing, and the panes of it: retractions by window, then the value.

    A firing without fresh rows emits nothing but where a pane comes on time always; the trigger has fired all the same.

    Source:
        The Dataflow Model, section 2.3 (discarding, accumulating, accumulating and retracting).
    """
    if isinstance(held.machine, Ended):
        return held, ()
    machine = held.machine.fire_at(moment)
    if not held.fresh and not held.machine.fires_without_rows(moment):
        return replace(held, machine=machine), ()
    pane = Pane(
        window=held.window,
        key=held.key,
        value=rules.value(held.contents),
        timing=_timing(held, moment),
        index=held.firings,
        processing_time=moment.now,
    )
    retracts = rules.accumulation is Accumulation.RETRACTING
    back = tuple(_retraction(old, pane) for old in held.panes) if retracts else ()
    after = Held(
        window=held.window,
        key=held.key,
        machine=machine,
        contents=() if rules.accumulation is Accumulation.DISCARDING else held.contents,
        panes=(pane,),
        firings=held.firings + 1,
    )
    return after, (*back, pane)


def place(held: Held) -> tuple[int, int, str, str]:
    """Return by what windows that fire at one moment are sorted."""
    return in_order(held.window, held.key)


def _timing(held: Held, moment: TriggerMoment) -> Timing:
    if not moment.passed:
        return Timing.EARLY
    return Timing.ON_TIME if held.is_punctual or not held.fresh else Timing.LATE


def _retraction(old: Pane, pane: Pane) -> Pane:
    return replace(old, timing=pane.timing, index=pane.index, processing_time=pane.processing_time, is_retraction=True)
