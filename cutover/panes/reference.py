"""Reference runner: simulates rows, a watermark and a trigger, moment by moment of processing time.

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
    """Return every pane of a setting, in the order of their emission.

    The simulation ends when all rows have arrived, the watermark has made its last step, and no period or epoch remains
    that could end; rows that no pane has shown by then are reported as waiting.
    """
    simulation = _Simulation(setting, HeldWindows(rules(setting)))
    for event in schedule_events(setting, lambda: simulation.board.due):
        match event:
            case Comes(row=row):
                simulation.add_row(row)
            case Ends():
                simulation.end_moment(event)
    return simulation.make_outcome()


def rules(setting: Setting) -> Rules:
    """Return the window rules of a setting; contents are a tally."""
    return Rules(
        trigger=setting.trigger,
        accumulation=setting.accumulation,
        is_sessions=setting.is_sessions,
        value=partial(tally.finish_tally, setting.measure),
        merge=tally.merge_tallies,
    )


@dataclass(slots=True)
class _Simulation:
    """State of a simulation: windows, watermark, dropped rows."""

    setting: Setting
    board: HeldWindows
    watermark: int = -FOREVER
    dropped: list[Dropped] = field(default_factory=list)

    def add_row(self, row: InputRow) -> None:
        """Add a row to each of its windows, or record why a window drops it."""
        for window in self.setting.window.assign_windows(row.event_time):
            reason = self._add_to_window(row, window)
            if reason is not None:
                self.dropped.append(Dropped(row=row, window=window, reason=reason))

    def end_moment(self, moment: Ends) -> None:
        """Advance the watermark, then fire every window that is ready."""
        old_watermark, self.watermark = self.watermark, moment.watermark
        self.board.settle(
            now=moment.at,
            old_watermark=old_watermark,
            new_watermark=moment.watermark,
            epoch_ends=moment.epoch_ends,
        )

    def make_outcome(self) -> Outcome:
        """Return the panes, the dropped rows and the rows still waiting."""
        waiting = [
            Waiting(window=state.window, key=state.key, rows=state.fresh)
            for state in sorted(self.board.windows, key=place)
            if state.fresh
        ]
        return Outcome(panes=tuple(self.board.panes), dropped=tuple(self.dropped), waiting=tuple(waiting))

    def _add_to_window(self, row: InputRow, window: Interval) -> DropReason | None:
        """Add a row to one window; return the reason if the window drops it."""
        if is_too_late(self.setting, window, self.watermark):
            return DropReason.TOO_LATE
        arrival = Arrival(window=window, key=row.key, contents=tally.count_row(self.setting.measure, row))
        is_accepted = self.board.add_rows(arrival, now=row.processing_time, watermark=self.watermark)
        return None if is_accepted else DropReason.TRIGGER_ENDED
