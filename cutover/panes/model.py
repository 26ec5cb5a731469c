"""What a simulation is given and what it answers: rows and how they are handled; panes in order."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from cutover.definition.measures.kinds import Measure
from cutover.definition.model.triggers import Accumulation, Trigger
from cutover.definition.windows.sessions import Window
from cutover.definition.windows.window_fn import FOREVER, Interval

Key = Hashable  # of a scenario a text, a whole number or None; of a pipeline what its column holds, a tuple of several


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRow:
    """One record. Times in microseconds since 1970."""

    event_time: int  # when it happened
    processing_time: int  # when it arrived
    key: Key = None
    columns: Mapping[str, Any] = field(default_factory=dict)  # what measures look at


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkStep:
    """At a moment, behind the rows that arrive at it, the watermark moves here; it never goes back."""

    processing_time: int
    watermark: int  # `-FOREVER`: nothing is known; `FOREVER`: all input is in


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
    """What, where, when and how: all that decides which panes come out."""

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
    """Where a firing lies against the watermark.

    Early: the watermark has not passed the end of the window. On time: it has, and the pane shows rows that came before
    it did, or it comes always and shows nothing new. Late: the pane shows nothing but rows that came after.
    """

    EARLY = "early"
    ON_TIME = "on_time"
    LATE = "late"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pane:
    """One emission of a window's result, or the retraction of an earlier one."""

    window: Interval
    key: Key
    value: Any  # the measure, finished; of a retraction the value that is taken back
    timing: Timing  # of the firing; a retraction has that of the pane that it makes room for
    index: int  # firings of this window and key before; a session goes on from the part of it that fired most
    processing_time: int
    is_retraction: bool = False

    @property
    def kind(self) -> str:
        """Return early, on_time, late or retraction."""
        return "retraction" if self.is_retraction else self.timing.value


class DropReason(StrEnum):
    """Why a row is in no pane of a window."""

    TOO_LATE = "too_late"  # the watermark had passed the end of the window and the allowed lateness
    TRIGGER_ENDED = "trigger_ended"  # the trigger had come to its end


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """One row that a window did not take."""

    row: InputRow
    window: Interval  # of a session: that of the row alone
    reason: DropReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Rows that no pane had shown when nothing more could happen."""

    window: Interval
    key: Key
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came out, in order, and what did not."""

    panes: tuple[Pane, ...]
    dropped: tuple[Dropped, ...] = ()
    waiting: tuple[Waiting, ...] = ()


def in_order(window: Interval, key: Key) -> tuple[int, int, str, str]:
    """Return by what panes of one moment are sorted: end of the window, start, key."""
    return (window.end, window.start, type(key).__name__, str(key))


def has_passed(watermark: int, window: Interval) -> bool:
    """Compare the watermark with the end: no more rows are expected then, late ones aside."""
    return watermark >= window.end


def is_too_late(setting: Setting, row: Interval, watermark: int) -> bool:
    """Return whether a window takes a row no more, since the allowed lateness is over.

    Args:
        setting: The allowed lateness, and the kind of window.
        row: The window of the row; of a session, that of the row alone.
        watermark: As the row arrives.

    A session needs the watermark *behind* its end, since its gap is inclusive: a row exactly at the end still joins it.
    """
    if setting.allowed_lateness is None:
        return False
    until = min(row.end + setting.allowed_lateness, FOREVER)
    return until < watermark if setting.is_sessions else until <= watermark
