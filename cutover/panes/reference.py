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
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from cutover.definition.windows import FOREVER, Interval
from cutover.panes.board import Board
from cutover.panes.held import Arrival, Rules, place
from cutover.panes.model import Dropped, DropReason, Outcome, Row, Setting, Step, Waiting, is_too_late
from cutover.panes.watermarks import estimated, steps
from cutover.records.reference.measures import finish, value_of


def run(setting: Setting) -> Outcome:
    """Return every pane of a setting, in the order in which they come out.

    It ends when all rows are in, the watermark has made its last step, and no period or epoch is left that could end;
    rows that no pane has shown until then are reported as waiting.
    """
    course = _Course(
        setting,
        Board(rules(setting)),
        rows=deque(sorted(setting.rows, key=lambda row: row.processing_time)),
        steps=deque(steps(setting)),
        epochs=deque(sorted(setting.epochs)),
    )
    while (now := course.next_moment()) is not None:
        course.advance(now)
    return course.outcome()


def rules(setting: Setting) -> Rules:
    """Return how the windows of a setting are handled; a pane is of rows."""
    return Rules(
        trigger=setting.trigger,
        accumulation=setting.accumulation,
        is_sessions=setting.is_sessions,
        value=partial(measured, setting),
    )


def measured(setting: Setting, rows: Sequence[Row]) -> object:
    """Return the measure of some rows, finished."""
    column = setting.measure.expression
    values = [None if column is None else row.columns[column] for row in rows]
    return finish(setting.measure, value_of(setting.measure, values))


@dataclass(slots=True)
class _Course:
    """One simulation: what is still to come, what is held, what has come out."""

    setting: Setting
    board: Board
    rows: deque[Row]
    steps: deque[Step]
    epochs: deque[int]
    watermark: int = -FOREVER
    newest_event: int | None = None
    dropped: list[Dropped] = field(default_factory=list)

    def next_moment(self) -> int | None:
        """Return when something happens next."""
        coming = [queue[0].processing_time for queue in (self.rows, self.steps) if queue]
        due = [] if self.board.due is None else [self.board.due]
        return min([*coming, *due, *list(self.epochs)[:1]], default=None)

    def advance(self, now: int) -> None:
        """Let everything of one moment happen: rows, then the watermark, then whatever is ready."""
        while self.rows and self.rows[0].processing_time == now:
            self._take(self.rows.popleft())
        before = self.watermark
        self._move_watermark(now)
        epoch_ends = bool(self.epochs) and self.epochs[0] == now
        if epoch_ends:
            self.epochs.popleft()
        self.board.settle(now=now, before=before, after=self.watermark, epoch_ends=epoch_ends)

    def outcome(self) -> Outcome:
        """Return what came out, and what did not."""
        unseen = [
            Waiting(window=one.window, key=one.key, rows=one.fresh)
            for one in sorted(self.board.windows, key=place)
            if one.fresh
        ]
        return Outcome(panes=tuple(self.board.panes), dropped=tuple(self.dropped), waiting=tuple(unseen))

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
        arrival = Arrival(window=window, key=row.key, contents=(row,))
        taken = self.board.put(arrival, now=row.processing_time, watermark=self.watermark)
        return None if taken else DropReason.TRIGGER_ENDED

    def _move_watermark(self, now: int) -> None:
        while self.steps and self.steps[0].processing_time == now:
            self.watermark = max(self.watermark, self.steps.popleft().watermark)
        self.watermark = max(self.watermark, estimated(self.setting, self.newest_event))
