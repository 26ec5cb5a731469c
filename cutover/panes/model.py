"""Input and output of a simulation: rows and their setting; panes in order."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from cutover.definition.measures.kinds import Measure
from cutover.definition.model.triggers import Accumulation, Trigger
from cutover.definition.windows.kinds import Window
from cutover.definition.windows.window_fn import FOREVER, Interval

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
