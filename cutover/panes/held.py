"""What is held of one window and key between its firings. Frozen; taking a row and firing return the next state."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cutover.definition.triggers import Accumulation
from cutover.definition.windows import Interval, merged
from cutover.panes.machine import Ended, Machine, Moment, merge
from cutover.panes.model import Key, Pane, Row, Setting, Timing, has_passed, in_order
from cutover.records.reference.measures import finish, value_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One window of one key."""

    window: Interval
    key: Key
    machine: Machine | Ended
    shown: tuple[Row, ...] = ()  # rows that a pane has shown
    fresh: tuple[Row, ...] = ()  # rows that none has
    is_punctual: bool = False  # one of the fresh rows came before the watermark passed the end of the window
    panes: tuple[Pane, ...] = ()  # that a retraction must take back: one, and of merged sessions one each
    firings: int = 0

    @property
    def due(self) -> int | None:
        """Return when the clock alone can make it fire."""
        return None if isinstance(self.machine, Ended) else self.machine.due

    def is_due(self, now: int) -> bool:
        """Return whether that is now."""
        return self.due is not None and self.due <= now


def joined(setting: Setting, several: Sequence[Held], row: Row, window: Interval, watermark: int) -> Held:
    """Return the state that a row falls into, before it is added.

    Args:
        setting: The trigger.
        several: What is held of the row's window: nothing, one, or the sessions that the row bridges.
        row: Its key.
        window: Of the row; of a session, that of the row alone.
        watermark: As the row arrives.

    Source:
        The Dataflow Model, section 2.2.2 (window merging).
    """
    (whole,) = merged([window, *(one.window for one in several)])
    parts = sorted(several, key=lambda one: one.window)
    return Held(
        window=whole,
        key=row.key,
        machine=merge(setting.trigger, [one.machine for one in parts], passed=has_passed(watermark, whole)),
        shown=tuple(row for one in parts for row in one.shown),
        fresh=tuple(row for one in parts for row in one.fresh),
        is_punctual=any(one.is_punctual for one in parts),
        panes=tuple(pane for one in parts for pane in one.panes),
        firings=max((one.firings for one in parts), default=0),
    )


def with_row(held: Held, machine: Machine, row: Row, watermark: int) -> Held:
    """Return the state after one more row, with a trigger that has not ended."""
    return replace(
        held,
        machine=machine.with_row(row.processing_time),
        fresh=(*held.fresh, row),
        is_punctual=held.is_punctual or not has_passed(watermark, held.window),
    )


def is_ready(held: Held, moment: Moment) -> bool:
    """Return whether a window fires; never, once its trigger has come to its end."""
    return not isinstance(held.machine, Ended) and held.machine.is_ready(moment)


def fired(setting: Setting, held: Held, moment: Moment) -> tuple[Held, tuple[Pane, ...]]:
    """Return the state after a firing, and the panes of it: retractions by window, then the value.

    A firing without fresh rows emits nothing; the trigger has fired all the same.

    Source:
        The Dataflow Model, section 2.3 (discarding, accumulating, accumulating and retracting).
    """
    after = replace(held, machine=held.machine if isinstance(held.machine, Ended) else held.machine.fired(moment))
    if not held.fresh:
        return after, ()
    timing = _timing(held, moment)
    rows = held.fresh if setting.accumulation is Accumulation.DISCARDING else (*held.shown, *held.fresh)
    pane = Pane(
        window=held.window,
        key=held.key,
        value=measured(setting, rows),
        timing=timing,
        index=held.firings,
        processing_time=moment.now,
    )
    retracts = setting.accumulation is Accumulation.RETRACTING
    back = tuple(_retraction(old, pane) for old in held.panes) if retracts else ()
    after = replace(
        after,
        shown=(*held.shown, *held.fresh),
        fresh=(),
        is_punctual=False,
        panes=(pane,),
        firings=held.firings + 1,
    )
    return after, (*back, pane)


def measured(setting: Setting, rows: Sequence[Row]) -> object:
    """Return the measure of some rows, finished."""
    column = setting.measure.expression
    values = [None if column is None else row.columns[column] for row in rows]
    places = [(row.event_time, 0, arrived) for arrived, row in enumerate(rows)]
    return finish(setting.measure, value_of(setting.measure, values, places))


def place(held: Held) -> tuple[int, int, str, str]:
    """Return by what windows that fire at one moment are sorted."""
    return in_order(held.window, held.key)


def _timing(held: Held, moment: Moment) -> Timing:
    if not moment.passed:
        return Timing.EARLY
    return Timing.ON_TIME if held.is_punctual else Timing.LATE


def _retraction(old: Pane, pane: Pane) -> Pane:
    return replace(old, timing=pane.timing, index=pane.index, processing_time=pane.processing_time, is_retraction=True)
