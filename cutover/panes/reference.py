"""Reference runner: simulates rows, a watermark and a trigger, moment by moment of processing time.

The state of a window has a constant size, sufficient for every measure of a scenario: a pane costs the same whether its
window has ten rows or a million. `cutover.panes.batch` measures all rows of a window at once, so the two can be
compared.

Source:
    Akidau et al., The Dataflow Model, VLDB 2015, sections 2.2 to 2.4.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

from cutover.definition.measures.kinds import Avg, Count, Max, Measure, Min, Sum
from cutover.definition.windows.window_fn import FOREVER, Interval
from cutover.errors import DefinitionError
from cutover.panes.held_windows import Arrival, HeldWindows, Rules, make_firing_key
from cutover.panes.model import (
    Comes,
    Dropped,
    DropReason,
    Ends,
    InputRow,
    Number,
    Outcome,
    Setting,
    Waiting,
    is_too_late,
    schedule_events,
)
from cutover.records.reference.measures import EXACT, finish_measure


class Tally(NamedTuple):
    """Number of rows; number, sum, minimum and maximum of the values that are not null."""

    rows: int = 0
    values: int = 0
    total: Decimal = Decimal(0)
    minimum: Number | None = None
    maximum: Number | None = None


NOTHING = Tally()


def count_row(measure: Measure, row: InputRow) -> tuple[Tally, ...]:
    """Return the tally of one row; null counts as a row without a value."""
    value = None if measure.expression is None else row.columns[measure.expression]
    if value is None:
        return (Tally(rows=1),)
    return (Tally(rows=1, values=1, total=Decimal(value), minimum=value, maximum=value),)


def merge_tallies(tallies: Sequence[Tally], other: Sequence[Tally]) -> tuple[Tally, ...]:
    """Merge the contents of two states; empty contents mean no rows."""
    if not tallies or not other:
        return (*tallies, *other)
    (a,), (b,) = tallies, other
    return (
        Tally(
            rows=a.rows + b.rows,
            values=a.values + b.values,
            total=EXACT.add(a.total, b.total),
            minimum=b.minimum if a.minimum is None or (b.minimum is not None and b.minimum < a.minimum) else a.minimum,
            maximum=b.maximum if a.maximum is None or (b.maximum is not None and b.maximum > a.maximum) else a.maximum,
        ),
    )


def finish_tally(measure: Measure, contents: Sequence[Tally]) -> object:
    """Compute a measure of contents.

    A count is the number of rows, nulls included: 0 without rows. Every other measure is None if all values are null.

    Raises:
        DefinitionError: Scenarios do not support the measure.
    """
    (tally,) = contents or (NOTHING,)
    return finish_measure(measure, _value(measure, tally))


def _value(measure: Measure, tally: Tally) -> Any:
    match measure:
        case Count():
            return tally.rows
        case Avg():
            return (tally.total, tally.values)
        case Sum():
            return tally.total if tally.values else None
        case Max():
            return tally.maximum
        case Min():
            return tally.minimum
        case other:
            msg = f"Scenario: expected a sum, minimum, maximum, average or count, got {other!r}."
            raise DefinitionError(msg)


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
        value=partial(finish_tally, setting.measure),
        merge=merge_tallies,
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
            for state in sorted(self.board.windows, key=make_firing_key)
            if state.fresh
        ]
        return Outcome(panes=tuple(self.board.panes), dropped=tuple(self.dropped), waiting=tuple(waiting))

    def _add_to_window(self, row: InputRow, window: Interval) -> DropReason | None:
        """Add a row to one window; return the reason if the window drops it."""
        if is_too_late(self.setting, window, self.watermark):
            return DropReason.TOO_LATE
        arrival = Arrival(window=window, key=row.key, contents=count_row(self.setting.measure, row))
        is_accepted = self.board.add_rows(arrival, now=row.processing_time, watermark=self.watermark)
        return None if is_accepted else DropReason.TRIGGER_ENDED
