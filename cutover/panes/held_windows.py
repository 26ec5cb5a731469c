"""All windows of one operator: rows arrive, time advances, panes come out. A simulation and a stream share this code.

At one moment rows arrive first (`add_rows`) and are evaluated against the watermark as it was; then time advances
(`settle`). The cost of a moment depends on the windows that it touches, not on the number of windows in state. The
state of a window and key is frozen: adding rows and firing return the next state.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from heapq import heappop, heappush
from operator import add
from typing import Any

from cutover.definition.model.triggers import Accumulation, Trigger
from cutover.definition.windows.kinds import can_merge
from cutover.definition.windows.window_fn import LATEST, Interval, merge_intervals
from cutover.panes.machine import Ended, Machine, TriggerMoment, merge
from cutover.panes.model import Key, Pane, Timing, has_passed, in_order

Contents = tuple[Any, ...]
"""Input of a pane: rows, or partial aggregates of rows. The order never matters."""

Place = tuple[Key, Interval]


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


@dataclass(slots=True)
class Agenda:
    """Future moments, each with the windows to evaluate then. A superfluous window is harmless: it is not ready."""

    _moments: list[int] = field(default_factory=list)  # a heap without duplicates
    _places: dict[int, dict[Place, None]] = field(default_factory=dict)

    @property
    def next(self) -> int | None:
        """Return the earliest moment; None if the agenda is empty."""
        return self._moments[0] if self._moments else None

    def add(self, moment: int, place: Place) -> None:
        """Schedule a window for a moment."""
        if moment not in self._places:
            heappush(self._moments, moment)
        self._places.setdefault(moment, {})[place] = None

    def pop_due(self, moment: int) -> Iterator[Place]:
        """Yield and remove the windows of all moments up to one, inclusive."""
        while self._moments and self._moments[0] <= moment:
            yield from self._places.pop(heappop(self._moments))


@dataclass(slots=True)
class SessionsInOrder:
    """Sessions of one key, ascending. No two touch each other, so their ends ascend too."""

    _intervals: list[Interval] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._intervals)

    def find_touching(self, window: Interval) -> list[Interval]:
        """Return the sessions at a distance of at most the gap, ascending, without scanning the others."""
        stop = bisect_right(self._intervals, Interval(window.end, LATEST + window.end))
        start = stop
        while start and can_merge(self._intervals[start - 1], window):
            start -= 1
        return self._intervals[start:stop]

    def add(self, window: Interval) -> None:
        """Insert a session that touches none of the present ones."""
        insort(self._intervals, window)

    def remove(self, window: Interval) -> None:
        """Remove a session."""
        del self._intervals[bisect_left(self._intervals, window)]


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


def make_firing_key(state: Held) -> tuple[int, int, str, str]:
    """Return the sort key of windows that fire at one moment: end, start, key."""
    return in_order(state.window, state.key)


def _timing(state: Held, moment: TriggerMoment) -> Timing:
    if not moment.is_past_end:
        return Timing.EARLY
    return Timing.ON_TIME if state.is_punctual or not state.fresh else Timing.LATE


def _make_retraction(old: Pane, pane: Pane) -> Pane:
    return replace(old, timing=pane.timing, index=pane.index, processing_time=pane.processing_time, is_retraction=True)


@dataclass(slots=True)
class HeldWindows:
    """Windows in state, and the panes and changes since the caller last cleared them."""

    rules: Rules
    panes: list[Pane] = field(default_factory=list)  # in the order of their emission
    changed: dict[Place, Held | None] = field(default_factory=dict)  # None: merged into another session
    _states: dict[Place, Held] = field(default_factory=dict)
    _sessions: dict[Key, SessionsInOrder] = field(default_factory=dict)  # empty for other kinds of window
    _touched: set[Place] = field(default_factory=set)  # windows that received rows since the last epoch ended
    _timers: Agenda = field(default_factory=Agenda)  # by processing time
    _ends: Agenda = field(default_factory=Agenda)  # windows that the watermark has not passed, by event time

    @property
    def due(self) -> int | None:
        """Return the earliest time at which the clock alone may make a window fire; nothing may be ready then."""
        return self._timers.next

    @property
    def touched(self) -> frozenset[Place]:
        """Return the windows that received rows since the last epoch ended."""
        return frozenset(self._touched)

    @property
    def windows(self) -> Iterable[Held]:
        """Return the state of every window, in no order."""
        return self._states.values()

    def restore(self, state: Held) -> None:
        """Add the state of a window from an earlier run; each window and key once."""
        self._add(state)
        if state.fresh:
            self._touched.add((state.key, state.window))

    def add_rows(self, arrival: Arrival, *, now: int, watermark: int) -> bool:
        """Add rows to a window that still accepts them; triggers that count rows may fire immediately.

        Returns:
            False if the trigger has ended, so that no pane will show the rows.
        """
        parts = self._find_states(arrival)
        joined = join_rows(self.rules, parts, arrival, watermark)
        state = with_rows(self.rules, joined, arrival, now=now, watermark=watermark)
        if state is None:
            return False
        self._replace(parts, state)
        self._touched.add((state.key, state.window))
        self._fire_if_ready(state, TriggerMoment(now=now, is_past_end=has_passed(watermark, state.window)))
        return True

    def settle(self, *, now: int, old_watermark: int, new_watermark: int, epoch_ends: bool) -> None:
        """Advance the watermark, then fire every window that is ready, by end of the window, start, key."""
        places = self._pop_candidates(now, new_watermark, epoch_ends=epoch_ends)
        candidates = {candidate: self._states[candidate] for candidate in places if candidate in self._states}
        for state in sorted(candidates.values(), key=make_firing_key):
            is_past_end = has_passed(new_watermark, state.window)
            moment = TriggerMoment(
                now=now,
                is_past_end=is_past_end,
                passes_end=is_past_end and not has_passed(old_watermark, state.window),
                is_complete=True,
                epoch_ends=epoch_ends,
            )
            self._fire_if_ready(state, moment)
        if epoch_ends:
            self._touched.clear()

    def evict(self, is_expired: Callable[[Held], bool]) -> None:
        """Remove expired windows, except those that may wait for the end of an epoch."""
        expired = [
            state for state in self.windows if is_expired(state) and (state.key, state.window) not in self._touched
        ]
        for state in expired:
            self._remove(state)

    def rewrite(self, state: Held) -> None:
        """Replace the state of a window."""
        self._states[state.key, state.window] = state

    def _pop_candidates(self, now: int, watermark: int, *, epoch_ends: bool) -> Iterator[Place]:
        yield from self._timers.pop_due(now)
        yield from self._ends.pop_due(watermark)
        if epoch_ends:
            yield from self._touched

    def _find_states(self, arrival: Arrival) -> list[Held]:
        """Return the states that rows fall into: none, one, or those of the sessions that they touch."""
        windows = [arrival.window]
        if self.rules.is_sessions:
            sessions = self._sessions.get(arrival.key)
            windows = sessions.find_touching(arrival.window) if sessions else []
        return [self._states[arrival.key, window] for window in windows if (arrival.key, window) in self._states]

    def _replace(self, parts: Iterable[Held], state: Held) -> None:
        for part in parts:
            self.changed[part.key, part.window] = None
            self._touched.discard((part.key, part.window))
            if part.window != state.window:
                self._remove(part)
        if (state.key, state.window) in self._states:
            self.rewrite(state)
            self._set_timer(state)
        else:
            self._add(state)
        self.changed[state.key, state.window] = state

    def _add(self, state: Held) -> None:
        self.rewrite(state)
        self._ends.add(state.window.end, (state.key, state.window))
        self._set_timer(state)
        if self.rules.is_sessions:
            self._sessions.setdefault(state.key, SessionsInOrder()).add(state.window)

    def _remove(self, state: Held) -> None:
        del self._states[state.key, state.window]
        if self.rules.is_sessions:
            sessions = self._sessions[state.key]
            sessions.remove(state.window)
            if not sessions:
                del self._sessions[state.key]

    def _fire_if_ready(self, state: Held, moment: TriggerMoment) -> None:
        if not is_ready(state, moment):
            return
        fired, panes = fire(self.rules, state, moment)
        self.rewrite(fired)
        self.changed[state.key, state.window] = fired
        self._set_timer(fired)
        self.panes.extend(panes)

    def _set_timer(self, state: Held) -> None:
        """Schedule the time at which the clock makes a window fire."""
        if state.due is not None:
            self._timers.add(state.due, (state.key, state.window))
