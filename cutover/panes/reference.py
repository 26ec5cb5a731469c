"""Runners in plain Python: the reference simulates the trigger, the batch one computes each window at once.

The reference simulates rows, a watermark and a trigger, moment by moment of processing time. The state of a window has
a constant size, sufficient for every measure of a scenario: a pane costs the same whether its window has ten rows or a
million. `run_batch` measures all rows of a window, so the two can be compared. It emits one pane per window and key,
once all input has arrived; it needs no trigger, and no row is late.

Source:
    Akidau et al., The Dataflow Model, VLDB 2015, sections 2.2 to 2.4.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

from cutover.definition.measures.kinds import Avg, Count, Max, Measure, Min, Sum
from cutover.definition.windows.window_fn import FOREVER, Interval, merge_intervals
from cutover.errors import DefinitionError
from cutover.panes.held_windows import Arrival, HeldWindows, Rules, make_firing_key
from cutover.panes.model import (
    Comes,
    Dropped,
    DropReason,
    Ends,
    InputRow,
    Key,
    Number,
    Outcome,
    Pane,
    Setting,
    Timing,
    Waiting,
    find_end_of_input,
    in_order,
    is_too_late,
    schedule_events,
)
from cutover.records.reference.measures import EXACT, finish_measure, merge_measure


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


Group = tuple[Key, Interval]


def run_batch(setting: Setting) -> Outcome:
    """Return the result of every window and key, by end of the window, start, key.

    All panes are emitted once all input has arrived. Trigger, accumulation and allowed lateness do not matter; of the
    watermark, only the time at which it reaches the end does.

    Source:
        Akidau et al., The Dataflow Model, VLDB 2015, figures 6 and 10.
    """
    completed_at = find_end_of_input(setting.rows, setting.watermark)
    groups = _group_rows(setting)
    return Outcome(
        panes=tuple(
            Pane(
                window=window,
                key=key,
                value=_compute_measure(setting.measure, groups[key, window]),
                timing=Timing.ON_TIME,
                index=0,
                processing_time=completed_at,
            )
            for key, window in sorted(groups, key=lambda group: in_order(group[1], group[0]))
        )
    )


def _compute_measure(measure: Measure, rows: Sequence[InputRow]) -> object:
    """Fold all rows and finish the measure; ties are broken by arrival."""
    column = measure.expression
    values = [None if column is None else row.columns[column] for row in rows]
    places = [(row.event_time, 0, position) for position, row in enumerate(rows)]
    return finish_measure(measure, merge_measure(measure, values, places))


def _group_rows(setting: Setting) -> dict[Group, list[InputRow]]:
    groups: dict[Group, list[InputRow]] = {}
    sessions = _merge_sessions(setting)
    for row in setting.rows:
        for window in setting.window.assign_windows(row.event_time):
            merged = sessions.get(row.key)
            session = window if merged is None else merged[bisect_right(merged, window.start, key=_start) - 1]
            groups.setdefault((row.key, session), []).append(row)
    return groups


def _start(window: Interval) -> int:
    return window.start


def _merge_sessions(setting: Setting) -> dict[Key, tuple[Interval, ...]]:
    """Return the sessions of every key; an empty mapping for other kinds of window."""
    if not setting.window.merges:
        return {}
    windows: dict[Key, list[Interval]] = {}
    for row in setting.rows:
        windows.setdefault(row.key, []).extend(setting.window.assign_windows(row.event_time))
    return {key: merge_intervals(intervals) for key, intervals in windows.items()}
