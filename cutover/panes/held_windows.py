"""All windows that are held: rows come to them, time passes, panes come out. The same for a simulation and a stream.

At one moment first the rows come (`put`), judged by the watermark as it was; then time moves (`settle`). What a moment
costs depends on the windows that it touches, not on those that are held.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from cutover.panes.agenda import Agenda, Place
from cutover.panes.held import Arrival, Held, Rules, fire, is_ready, join_rows, place, with_rows
from cutover.panes.machine import TriggerMoment
from cutover.panes.model import Key, Pane, has_passed
from cutover.panes.sessions import SessionsInOrder


@dataclass(slots=True)
class HeldWindows:
    """What is held, and what has come out of it."""

    rules: Rules
    panes: list[Pane] = field(default_factory=list)  # in the order in which they came out
    changed: dict[Place, Held | None] = field(default_factory=dict)  # None: it became a part of another session
    _held: dict[Place, Held] = field(default_factory=dict)
    _sessions: dict[Key, SessionsInOrder] = field(default_factory=dict)  # none of other windows
    _touched: set[Place] = field(default_factory=set)  # windows that took rows since an epoch ended
    _timers: Agenda = field(default_factory=Agenda)  # by processing time
    _ends: Agenda = field(default_factory=Agenda)  # windows that the watermark has not passed, by event time

    @property
    def due(self) -> int | None:
        """Return when the clock alone can make a window fire next; there may be nothing to fire after all."""
        return self._timers.next

    @property
    def touched(self) -> frozenset[Place]:
        """Return the windows that took rows since an epoch ended."""
        return frozenset(self._touched)

    @property
    def windows(self) -> Iterable[Held]:
        """Return everything that is held, in no order."""
        return self._held.values()

    def take(self, held: Held) -> None:
        """Go on with what an earlier board held; each window and key once."""
        self._add(held)
        if held.fresh:
            self._touched.add((held.key, held.window))

    def put(self, arrival: Arrival, *, now: int, watermark: int) -> bool:
        """Let rows come, with a window that takes rows by its allowed lateness; what counts rows may fire at once.

        Returns:
            False: the trigger has come to its end, so no pane will show them.
        """
        several = self._find_held(arrival)
        before = join_rows(self.rules, several, arrival, watermark)
        held = with_rows(self.rules, before, arrival, now=now, watermark=watermark)
        if held is None:
            return False
        self._replace(several, held)
        self._touched.add((held.key, held.window))
        self._ask(held, TriggerMoment(now=now, passed=has_passed(watermark, held.window)))
        return True

    def settle(self, *, now: int, before: int, after: int, epoch_ends: bool) -> None:
        """Let the watermark move from `before` to `after`; then whatever is ready fires, by end, start, key."""
        asked = {one: self._held[one] for one in self._to_ask(now, after, epoch_ends=epoch_ends) if one in self._held}
        for held in sorted(asked.values(), key=place):
            passed = has_passed(after, held.window)
            passes = passed and not has_passed(before, held.window)
            self._ask(held, TriggerMoment(now=now, passed=passed, passes=passes, settled=True, epoch_ends=epoch_ends))
        if epoch_ends:
            self._touched.clear()

    def forget(self, is_over: Callable[[Held], bool]) -> None:
        """Let go of windows in which nothing can happen any more; not of one that may wait for an epoch's end."""
        over = [
            window for window in self.windows if is_over(window) and (window.key, window.window) not in self._touched
        ]
        for held in over:
            self._remove(held)

    def rewrite(self, held: Held) -> None:
        """Hold this of a window that is held, from here on."""
        self._held[held.key, held.window] = held

    def _to_ask(self, now: int, after: int, *, epoch_ends: bool) -> Iterator[Place]:
        yield from self._timers.take(now)
        yield from self._ends.take(after)
        if epoch_ends:
            yield from self._touched

    def _find_held(self, arrival: Arrival) -> list[Held]:
        """Return what is held of the window of rows: nothing, one, or the sessions that they touch."""
        windows = [arrival.window]
        if self.rules.is_sessions:
            windows = self._sessions[arrival.key].touching(arrival.window) if arrival.key in self._sessions else []
        return [self._held[arrival.key, window] for window in windows if (arrival.key, window) in self._held]

    def _replace(self, several: Iterable[Held], held: Held) -> None:
        here = (held.key, held.window)
        for one in several:
            self.changed[one.key, one.window] = None
            self._touched.discard((one.key, one.window))
            if one.window != held.window:
                self._remove(one)
        if here in self._held:
            self.rewrite(held)
            self._set_timer(held)
        else:
            self._add(held)
        self.changed[here] = held

    def _add(self, held: Held) -> None:
        self.rewrite(held)
        self._ends.add(held.window.end, (held.key, held.window))
        self._set_timer(held)
        if self.rules.is_sessions:
            self._sessions.setdefault(held.key, SessionsInOrder()).add(held.window)

    def _remove(self, held: Held) -> None:
        del self._held[held.key, held.window]
        if self.rules.is_sessions:
            of_key = self._sessions[held.key]
            of_key.remove(held.window)
            if not of_key:
                del self._sessions[held.key]

    def _ask(self, held: Held, moment: TriggerMoment) -> None:
        """Let a window fire if it is ready."""
        if not is_ready(held, moment):
            return
        after, panes = fire(self.rules, held, moment)
        self.rewrite(after)
        self.changed[held.key, held.window] = after
        self._set_timer(after)
        self.panes.extend(panes)

    def _set_timer(self, held: Held) -> None:
        """See to it that the moment comes at which the clock makes a window fire."""
        if held.due is not None:
            self._timers.add(held.due, (held.key, held.window))
