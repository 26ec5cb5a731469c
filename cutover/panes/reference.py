"""The reference: which panes come out of rows, a watermark and a trigger, one moment of processing time after another.

What happens at one moment happens in this order, so that every engine has one answer to be compared with:

1. the rows that arrive, in the order given, judged by the watermark as it was before this moment; a trigger that counts
   and one that waits for late rows fire with the row;
2. the watermark moves;
3. whatever is ready fires: at the watermark, at the end of a period or an epoch; by end of the window, start, key.

So a row that arrives exactly at the end of a period or epoch is part of that pane, and one that arrives at the moment
in which the watermark passes its window is on time.

Source:
    Akidau et al., The Dataflow Model, VLDB 2015, sections 2.2 to 2.4.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from cutover.definition.windows import FOREVER, Interval, touch
from cutover.panes.held import Held, fired, is_ready, joined, place, with_row
from cutover.panes.machine import Ended, Moment
from cutover.panes.model import (
    Dropped,
    DropReason,
    Key,
    Outcome,
    Pane,
    Row,
    Setting,
    Step,
    Waiting,
    has_passed,
    is_too_late,
)
from cutover.panes.watermarks import estimated, steps


def run(setting: Setting) -> Outcome:
    """Return every pane of a setting, in the order in which they come out.

    It ends when all rows are in, the watermark has made its last step, and no period or epoch is left that could end;
    rows that no pane has shown until then are reported as waiting.
    """
    course = _Course(
        setting,
        rows=deque(sorted(setting.rows, key=lambda row: row.processing_time)),
        steps=deque(steps(setting)),
        epochs=deque(sorted(setting.epochs)),
    )
    while (now := course.next_moment()) is not None:
        course.advance(now)
    return course.outcome()


@dataclass(slots=True)
class _Course:
    """One simulation: what is still to come, what is held, what has come out."""

    setting: Setting
    rows: deque[Row]
    steps: deque[Step]
    epochs: deque[int]
    watermark: int = -FOREVER
    newest_event: int | None = None
    timers: list[int] = field(default_factory=list)  # a heap of processing times
    held: dict[Key, list[Held]] = field(default_factory=dict)
    panes: list[Pane] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)

    def next_moment(self) -> int | None:
        """Return when something happens next."""
        coming = [queue[0].processing_time for queue in (self.rows, self.steps) if queue]
        return min([*coming, *(queue[0] for queue in (self.epochs, self.timers) if queue)], default=None)

    def advance(self, now: int) -> None:
        """Let everything of one moment happen: rows, then the watermark, then whatever is ready."""
        while self.rows and self.rows[0].processing_time == now:
            self._take(self.rows.popleft())
        before = self.watermark
        self._move_watermark(now)
        epoch_ends = bool(self.epochs) and self.epochs[0] == now
        if epoch_ends:
            self.epochs.popleft()
        rings = self._clock_rings(now)
        asked = [
            held
            for held in self._windows()
            if epoch_ends or before < held.window.end <= self.watermark or (rings and held.is_due(now))
        ]
        for held in sorted(asked, key=place):
            self._ask(held, self._moment(held, now, settled=True, epoch_ends=epoch_ends))

    def outcome(self) -> Outcome:
        """Return what came out, and what did not."""
        unseen = [
            Waiting(window=one.window, key=one.key, rows=len(one.fresh))
            for one in sorted(self._windows(), key=place)
            if one.fresh
        ]
        return Outcome(panes=tuple(self.panes), dropped=tuple(self.dropped), waiting=tuple(unseen))

    def _take(self, row: Row) -> None:
        self.newest_event = max(row.event_time, row.event_time if self.newest_event is None else self.newest_event)
        for window in self.setting.window.intervals(row.event_time):
            reason = self._put(row, window)
            if reason is not None:
                self.dropped.append(Dropped(row=row, window=window, reason=reason))

    def _put(self, row: Row, window: Interval) -> DropReason | None:
        """Add a row to one window, or return why not."""
        if is_too_late(self.setting, window, self.watermark):
            return DropReason.TOO_LATE
        several = [one for one in self.held.get(row.key, []) if self._is_same(one.window, window)]
        replaced = {one.window for one in several}
        before = joined(self.setting, several, row, window, self.watermark)
        if isinstance(before.machine, Ended):
            return DropReason.TRIGGER_ENDED
        held = with_row(before, before.machine, row, self.watermark)
        self.held[row.key] = [one for one in self.held.get(row.key, []) if one.window not in replaced] + [held]
        self._set_timer(held)
        self._ask(held, self._moment(held, row.processing_time))
        return None

    def _is_same(self, one: Interval, other: Interval) -> bool:
        return touch(one, other) if self.setting.is_sessions else one == other

    def _move_watermark(self, now: int) -> None:
        while self.steps and self.steps[0].processing_time == now:
            self.watermark = max(self.watermark, self.steps.popleft().watermark)
        self.watermark = max(self.watermark, estimated(self.setting, self.newest_event))

    def _moment(self, held: Held, now: int, *, settled: bool = False, epoch_ends: bool = False) -> Moment:
        passed = has_passed(self.watermark, held.window)
        return Moment(now=now, passed=passed, settled=settled, epoch_ends=epoch_ends)

    def _ask(self, held: Held, moment: Moment) -> None:
        """Let a window fire if it is ready."""
        if not is_ready(held, moment):
            return
        after, panes = fired(self.setting, held, moment)
        windows = self.held[held.key]
        windows[windows.index(held)] = after
        self._set_timer(after)
        self.panes.extend(panes)

    def _clock_rings(self, now: int) -> bool:
        """Return whether a timer was set for this moment, and take it away."""
        rings = bool(self.timers) and self.timers[0] == now
        while self.timers and self.timers[0] == now:
            heappop(self.timers)
        return rings

    def _set_timer(self, held: Held) -> None:
        """See to it that the moment comes at which the clock makes a window fire; one too many does no harm."""
        if held.due is not None:
            heappush(self.timers, held.due)

    def _windows(self) -> Iterable[Held]:
        return (one for windows in self.held.values() for one in windows)
