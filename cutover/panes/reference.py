"""The reference: which panes come out of rows, a watermark and a trigger, one moment of processing time after another.

Source:
    Akidau et al., The Dataflow Model, VLDB 2015, sections 2.2 to 2.4.
"""

from dataclasses import dataclass, field
from functools import partial

from cutover.definition.windows.window_fn import FOREVER, Interval
from cutover.panes import tally
from cutover.panes.event_schedule import Comes, Ends, schedule_events
from cutover.panes.held import Arrival, Rules, place
from cutover.panes.held_windows import HeldWindows
from cutover.panes.model import Dropped, DropReason, InputRow, Outcome, Setting, Waiting, is_too_late


def run(setting: Setting) -> Outcome:
    """Return every pane of a setting, in the order in which they come out.

    It ends when all rows are in, the watermark has made its last step, and no period or epoch is left that could end;
    rows that no pane has shown until then are reported as waiting.
    """
    simulation = _Simulation(setting, HeldWindows(rules(setting)))
    for happening in schedule_events(setting, lambda: simulation.board.due):
        match happening:
            case Comes(row=row):
                simulation.take(row)
            case Ends():
                simulation.end(happening)
    return simulation.outcome()


def rules(setting: Setting) -> Rules:
    """Return how the windows of a setting are handled; contents are a tally."""
    return Rules(
        trigger=setting.trigger,
        accumulation=setting.accumulation,
        is_sessions=setting.is_sessions,
        value=partial(tally.finish_measure, setting.measure),
        merge=tally.merge_tallies,
    )


@dataclass(slots=True)
class _Simulation:
    """What is held, what has come out, what was not taken."""

    setting: Setting
    board: HeldWindows
    watermark: int = -FOREVER
    dropped: list[Dropped] = field(default_factory=list)

    def take(self, row: InputRow) -> None:
        """Let a row come."""
        for window in self.setting.window.assign_windows(row.event_time):
            reason = self._put(row, window)
            if reason is not None:
                self.dropped.append(Dropped(row=row, window=window, reason=reason))

    def end(self, moment: Ends) -> None:
        """Let the watermark move; then whatever is ready fires."""
        before, self.watermark = self.watermark, moment.watermark
        self.board.settle(now=moment.at, before=before, after=moment.watermark, epoch_ends=moment.epoch_ends)

    def outcome(self) -> Outcome:
        """Return what came out, and what did not."""
        unseen = [
            Waiting(window=window.window, key=window.key, rows=window.fresh)
            for window in sorted(self.board.windows, key=place)
            if window.fresh
        ]
        return Outcome(panes=tuple(self.board.panes), dropped=tuple(self.dropped), waiting=tuple(unseen))

    def _put(self, row: InputRow, window: Interval) -> DropReason | None:
        """Add a row to one window, or return why not."""
        if is_too_late(self.setting, window, self.watermark):
            return DropReason.TOO_LATE
        arrival = Arrival(window=window, key=row.key, contents=tally.of_row(self.setting.measure, row))
        taken = self.board.put(arrival, now=row.processing_time, watermark=self.watermark)
        return None if taken else DropReason.TRIGGER_ENDED
