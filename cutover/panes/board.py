"""All windows that are held: rows come to them, time passes, panes come out. The same for a simulation and a stream.

At one moment first the rows come (`put`), judged by the watermark as it was; then time moves (`settle`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from cutover.definition.windows import Interval, touch
from cutover.panes.held import Arrival, Held, Rules, fired, is_ready, joined, place, with_rows
from cutover.panes.machine import Ended, Moment
from cutover.panes.model import Key, Pane, has_passed

Place = tuple[Key, Interval]


@dataclass(slots=True)
class Board:
    """What is held, and what has come out of it."""

    rules: Rules
    panes: list[Pane] = field(default_factory=list)  # in the order in which they came out
    changed: dict[Place, Held | None] = field(default_factory=dict)  # None: it became a part of another session
    _held: dict[Key, dict[Interval, Held]] = field(default_factory=dict)
    _touched: set[Place] = field(default_factory=set)  # windows that took rows since an epoch ended
    _timers: list[int] = field(default_factory=list)  # a heap of processing times, each once

    @property
    def due(self) -> int | None:
        """Return when the clock alone can make a window fire next; there may be nothing to fire after all."""
        return self._timers[0] if self._timers else None

    @property
    def touched(self) -> frozenset[Place]:
        """Return the windows that took rows since an epoch ended."""
        return frozenset(self._touched)

    @property
    def windows(self) -> Iterable[Held]:
        """Return everything that is held, in no order."""
        return (one for windows in self._held.values() for one in windows.values())

    def take(self, held: Held) -> None:
        """Go on with what an earlier board held; each window and key once."""
        self.rewrite(held)
        self._set_timer(held)
        if held.fresh:
            self._touched.add((held.key, held.window))

    def put(self, arrival: Arrival, *, now: int, watermark: int) -> bool:
        """Let rows come, with a window that takes rows by its allowed lateness; what counts rows may fire at once.

        Returns:
            False: the trigger has come to its end, so no pane will show them.
        """
        several = self._same(arrival)
        before = joined(self.rules, several, arrival, watermark)
        if isinstance(before.machine, Ended):
            return False
        held = with_rows(before, before.machine, arrival, now=now, watermark=watermark)
        self._replace(several, held)
        self._touched.add((held.key, held.window))
        self._ask(held, Moment(now=now, passed=has_passed(watermark, held.window)))
        return True

    def settle(self, *, now: int, before: int, after: int, epoch_ends: bool) -> None:
        """Let the watermark move from `before` to `after`; then whatever is ready fires, by end, start, key."""
        rings = self._clock_rings(now)
        asked = {(key, window): self._held[key][window] for key, window in self._touched if epoch_ends}
        if rings or before < after:
            for held in self.windows:
                if before < held.window.end <= after or (rings and held.is_due(now)):
                    asked[held.key, held.window] = held
        for held in sorted(asked.values(), key=place):
            passed = has_passed(after, held.window)
            self._ask(held, Moment(now=now, passed=passed, settled=True, epoch_ends=epoch_ends))
        if epoch_ends:
            self._touched.clear()

    def forget(self, is_over: Callable[[Held], bool]) -> None:
        """Let go of windows in which nothing can happen any more; not of one that may wait for an epoch's end."""
        over = [held for held in self.windows if is_over(held) and (held.key, held.window) not in self._touched]
        for held in over:
            del self._held[held.key][held.window]
            if not self._held[held.key]:
                del self._held[held.key]

    def rewrite(self, held: Held) -> None:
        """Hold this of a window from here on."""
        self._held.setdefault(held.key, {})[held.window] = held

    def _same(self, arrival: Arrival) -> list[Held]:
        """Return what is held of the window of rows: nothing, one, or the sessions that they touch."""
        windows = self._held.get(arrival.key, {})
        if self.rules.is_sessions:
            return [one for one in windows.values() if touch(one.window, arrival.window)]
        return [windows[arrival.window]] if arrival.window in windows else []

    def _replace(self, several: Iterable[Held], held: Held) -> None:
        for one in several:
            del self._held[one.key][one.window]
            self.changed[one.key, one.window] = None
            self._touched.discard((one.key, one.window))
        self.rewrite(held)
        self.changed[held.key, held.window] = held
        self._set_timer(held)

    def _ask(self, held: Held, moment: Moment) -> None:
        """Let a window fire if it is ready."""
        if not is_ready(held, moment):
            return
        after, panes = fired(self.rules, held, moment)
        self.rewrite(after)
        self.changed[held.key, held.window] = after
        self._set_timer(after)
        self.panes.extend(panes)

    def _clock_rings(self, now: int) -> bool:
        """Return whether a timer was set for a moment that has come, and take it away."""
        rings = bool(self._timers) and self._timers[0] <= now
        while self._timers and self._timers[0] <= now:
            heappop(self._timers)
        return rings

    def _set_timer(self, held: Held) -> None:
        """See to it that the moment comes at which the clock makes a window fire; one too many does no harm."""
        if held.due is not None and held.due not in self._timers:
            heappush(self._timers, held.due)
