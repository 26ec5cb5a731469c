"""A simulation: rows and their setting, its events in order, and the panes that come out; the same for every engine.

The events of one moment have a fixed order, so every engine can be compared with one answer:

1. the rows arrive, in the given order, and are evaluated against the watermark before this moment; triggers that count
   rows and triggers that wait for late rows fire with the row;
2. the watermark advances;
3. every window that is ready fires: at the watermark, at the end of a period or an epoch; by end of the window, start,
   key.

So a row that arrives exactly at the end of a period or epoch is part of that pane, and one that arrives at the moment
at which the watermark passes its window is on time.

Source:
    Akidau et al., The Dataflow Model, VLDB 2015, section 2.3; Begoli et al., Watermarks in Stream Processing Systems,
    VLDB 2021.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any

from cutover.definition.measures.kinds import Measure
from cutover.definition.model.triggers import Accumulation, Trigger
from cutover.definition.windows.kinds import Window
from cutover.definition.windows.window_fn import FOREVER, Interval

Number = int | Decimal
Key = Hashable  # of a scenario a text, a whole number or None; of a pipeline what its column holds, a tuple of several


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRow:
    """One record. Times in microseconds since 1970."""

    event_time: int  # when it happened
    processing_time: int  # when it arrived
    key: Key = None
    columns: Mapping[str, Any] = field(default_factory=dict)  # read by measures


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkStep:
    """Value to which the watermark advances at a moment, after the rows of that moment; it never decreases."""

    processing_time: int
    watermark: int  # `-FOREVER`: unknown; `FOREVER`: all input has arrived


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """A watermark that follows the newest event time at a fixed distance."""

    out_of_orderness: int  # microseconds


@dataclass(frozen=True, slots=True)
class Ideal:
    """A watermark that is the processing time itself: nothing arrives later than it happens."""


Watermark = tuple[WatermarkStep, ...] | Estimator | Ideal


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Rows, measure, window, trigger, accumulation and watermark: everything that determines the panes."""

    rows: tuple[InputRow, ...]  # in the order in which those of one moment arrive
    measure: Measure
    window: Window
    trigger: Trigger
    accumulation: Accumulation
    watermark: Watermark = ()
    allowed_lateness: int | None = None  # microseconds; None: without end, as in the paper
    epochs: tuple[int, ...] = ()  # processing times at which an epoch ends

    @property
    def is_sessions(self) -> bool:
        """Return whether windows of a key merge."""
        return self.window.merges


class Timing(StrEnum):
    """Position of a firing relative to the watermark.

    Early: the watermark has not passed the end of the window. On time: it has, and the pane shows rows that arrived
    before that, or is emitted always and shows no new rows. Late: the pane shows only rows that arrived after that.
    """

    EARLY = "early"
    ON_TIME = "on_time"
    LATE = "late"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pane:
    """One emission of a window's result, or the retraction of an earlier one."""

    window: Interval
    key: Key
    value: Any  # finished measure; for a retraction, the value that is withdrawn
    timing: Timing  # of the firing; a retraction has that of the pane that replaces it
    index: int  # earlier firings of this window and key; a merged session continues from its part with the most firings
    processing_time: int
    is_retraction: bool = False

    @property
    def kind(self) -> str:
        """Return early, on_time, late or retraction."""
        return "retraction" if self.is_retraction else self.timing.value


class DropReason(StrEnum):
    """Reason why a row is in no pane of a window."""

    TOO_LATE = "too_late"  # the watermark had passed the end of the window and the allowed lateness
    TRIGGER_ENDED = "trigger_ended"  # the trigger had ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Row that a window did not accept."""

    row: InputRow
    window: Interval  # of a session: that of the row alone
    reason: DropReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Rows that no pane had shown at the end of the simulation."""

    window: Interval
    key: Key
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Panes in order, dropped rows, and rows still waiting."""

    panes: tuple[Pane, ...]
    dropped: tuple[Dropped, ...] = ()
    waiting: tuple[Waiting, ...] = ()


def in_order(window: Interval, key: Key) -> tuple[int, int, str, str]:
    """Return the sort key of panes of one moment: end of the window, start, key."""
    return (window.end, window.start, type(key).__name__, str(key))


def has_passed(watermark: int, window: Interval) -> bool:
    """Return whether the watermark has reached the end of a window: only late rows are expected from then on."""
    return watermark >= window.end


def is_too_late(setting: Setting, row: Interval, watermark: int) -> bool:
    """Return whether a window rejects a row because its allowed lateness has expired.

    Args:
        setting: Provides the allowed lateness and the kind of window.
        row: Window of the row; of a session, the window of the row alone.
        watermark: Watermark as the row arrives.

    A session needs the watermark *behind* its end, since its gap is inclusive: a row exactly at the end still joins it.
    """
    if setting.allowed_lateness is None:
        return False
    limit = min(row.end + setting.allowed_lateness, FOREVER)
    return limit < watermark if setting.is_sessions else limit <= watermark


@dataclass(frozen=True, slots=True)
class Comes:
    """Arrival of a row."""

    row: InputRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """End of a moment: all its rows have arrived."""

    at: int  # processing time
    watermark: int  # after this moment
    epoch_ends: bool


def list_watermark_steps(setting: Setting) -> tuple[WatermarkStep, ...]:
    """Return the steps at which the watermark advances independently of rows, ascending.

    The ideal watermark advances continuously; it is sampled where that matters: as it passes the end of a window, and
    as the allowed lateness after it expires.
    """
    if isinstance(setting.watermark, Estimator):
        return ()
    if not isinstance(setting.watermark, Ideal):
        return setting.watermark
    moments: set[int] = set()
    for row in setting.rows:
        for window in setting.window.assign_windows(row.event_time):
            moments.add(window.end)
            if setting.allowed_lateness is not None:
                # Sessions still accept rows at the limit itself, so the next moment matters too.
                limit = window.end + setting.allowed_lateness
                moments.update((limit, limit + 1))
    return tuple(
        WatermarkStep(processing_time=moment, watermark=moment) for moment in sorted(moments) if moment < FOREVER
    )


def find_end_of_input(rows: Sequence[InputRow], watermark: Watermark) -> int:
    """Return the time at which input is complete: that of the last row or, if later, of the final step."""
    last_arrival = max((row.processing_time for row in rows), default=0)
    final_steps = [step for step in watermark if step.watermark == FOREVER] if isinstance(watermark, tuple) else []
    return max(last_arrival, final_steps[0].processing_time) if final_steps else last_arrival


def estimate_watermark(setting: Setting, newest_event: int | None) -> int:
    """Return the watermark implied by rows; `-FOREVER` if it does not follow rows, or no row has arrived."""
    if not isinstance(setting.watermark, Estimator) or newest_event is None:
        return -FOREVER
    return newest_event - setting.watermark.out_of_orderness


@dataclass(slots=True)
class _Pending:
    rows: deque[InputRow]
    steps: deque[WatermarkStep]
    epochs: deque[int]
    watermark: int = -FOREVER
    event_times: list[int] = field(default_factory=list)  # of the rows that have arrived; the maximum suffices

    def next_moment(self, due: int | None) -> int | None:
        heads = [queue[0].processing_time for queue in (self.rows, self.steps) if queue]
        timers = [] if due is None else [due]
        ending = [self.epochs[0]] if self.epochs else []
        return min([*heads, *timers, *ending], default=None)


def arriving(setting: Setting) -> tuple[InputRow, ...]:
    """Return the rows in the order of their arrival."""
    return tuple(sorted(setting.rows, key=lambda row: row.processing_time))


def schedule_events(setting: Setting, due: Callable[[], int | None]) -> Iterator[Comes | Ends]:
    """Yield the events of a simulation until none can follow.

    Args:
        setting: Provides rows, watermark, epochs.
        due: Called after each event; returns the next time at which the clock alone can make a window fire.
    """
    pending = _Pending(deque(arriving(setting)), deque(list_watermark_steps(setting)), deque(sorted(setting.epochs)))
    while (now := pending.next_moment(due())) is not None:
        while pending.rows and pending.rows[0].processing_time == now:
            row = pending.rows.popleft()
            pending.event_times.append(row.event_time)
            yield Comes(row)
        yield _end(setting, pending, now)


def _end(setting: Setting, pending: _Pending, now: int) -> Ends:
    while pending.steps and pending.steps[0].processing_time == now:
        pending.watermark = max(pending.watermark, pending.steps.popleft().watermark)
    pending.watermark = max(pending.watermark, estimate_watermark(setting, max(pending.event_times, default=None)))
    pending.event_times = [max(pending.event_times)] if pending.event_times else []
    epoch_ends = bool(pending.epochs) and pending.epochs[0] == now
    if epoch_ends:
        pending.epochs.popleft()
    return Ends(at=now, watermark=pending.watermark, epoch_ends=epoch_ends)
