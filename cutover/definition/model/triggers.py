"""Triggers: when in processing time a pane of a window is emitted, and how the panes of one window relate.

A trigger is a frozen value. These rules hold in every engine:

- **A part considers the rows that have arrived since it started**, and fires only if there are any, except for
  `AtWatermark(always=True)`. A part that restarts, and a part of a sequence whose turn comes, starts without rows.
- **A firing emits all rows that no pane has emitted yet.** If there are none, no pane is emitted (again except for
  `always`), but the trigger has fired: a sequence advances.
- **A finished trigger never fires again**: rows that arrive afterwards are dropped and counted.

Source:
    Akidau et al., The Dataflow Model, VLDB 2015, section 2.3; for what the paper leaves open, the triggers of Apache
    Beam (`AfterEach`, `orFinally`, `Repeatedly`).
"""

from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Literal, NoReturn, TypeGuard

from cutover.errors import DefinitionError
from cutover.timestamps import parse_duration


class Accumulation(StrEnum):
    """Relation between the panes of a window."""

    DISCARDING = "discarding"  # a pane contains the rows since the previous one; the sum of all panes is the result
    ACCUMULATING = "accumulating"  # a pane contains all rows so far; the last pane is the result
    RETRACTING = "retracting"  # accumulating; the same firing first retracts each pane that it supersedes


def _reject(thing: str, expected: str, actual: str, hint: str) -> NoReturn:
    msg = f"Trigger `{thing}`: expected {expected}, got {actual}.\nHint: {hint}"
    raise DefinitionError(msg)


@dataclass(frozen=True, slots=True)
class Every:
    """Trigger at the end of each period in which rows arrived. Periods end at multiples of it in processing time.

    A row that arrives exactly at the end of a period is part of that pane.
    """

    period: str  # such as `1 minute`

    def __post_init__(self) -> None:
        if self.period_micros == 0:
            _reject("Every", "a period longer than zero", f"`{self.period}`", "such as `1 minute`.")

    @property
    def period_micros(self) -> int:
        """In microseconds."""
        return parse_duration(self.period, of="trigger.every")


@dataclass(frozen=True, slots=True)
class AfterCount:
    """Trigger on the n-th row."""

    rows: int

    def __post_init__(self) -> None:
        if self.rows < 1:
            _reject("AfterCount", "at least one row", str(self.rows), "it would never fire, or fire forever.")


@dataclass(frozen=True, slots=True)
class AfterDelay:
    """Trigger a delay after the first row, in processing time; not aligned, so windows and keys fire independently.

    A row that arrives exactly at the end of the delay is part of that pane.

    Source:
        Apache Beam's `AfterProcessingTime.pastFirstElementInPane().plusDelayOf(..)`; Akidau et al., Streaming Systems,
        O'Reilly 2018, chapter 2 (`UnalignedDelay`).
    """

    delay: str  # such as `2 minutes`

    def __post_init__(self) -> None:
        if self.delay_micros == 0:
            _reject("AfterDelay", "a delay longer than zero", f"`{self.delay}`", "AfterCount(1) fires on each row.")

    @property
    def delay_micros(self) -> int:
        """In microseconds."""
        return parse_duration(self.delay, of="trigger.after_delay")


@dataclass(frozen=True, slots=True)
class EachEpoch:
    """Trigger at the end of an epoch (a micro-batch) in which rows arrived."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """Trigger that restarts another one whenever that finishes."""

    of: "Trigger"


@dataclass(frozen=True, slots=True, init=False)
class Sequence:
    """Triggers in turn: each starts when the previous one finishes."""

    parts: tuple["Trigger", ...]

    def __init__(self, *parts: "Trigger") -> None:
        object.__setattr__(self, "parts", parts)
        if not self.parts:
            _reject("Sequence", "at least one trigger", "none", "it would never fire.")
        for part, next_part in pairwise(self.parts):
            if not is_finite(part):
                hint = "the second could never fire; wrap the first in Until(...)."
                _reject("Sequence", "parts that finish", f"{part} before {next_part}", hint)


@dataclass(frozen=True, slots=True)
class AtWatermark:
    """Trigger when the watermark passes the end of the window: all rows are expected to have arrived.

    `Repeat(AtWatermark())` fires then, and again on each late row. `early` fires repeatedly before it, `late`
    repeatedly after it: `AtWatermark(early=e, late=l)` is `Sequence(Until(Repeat(e), AtWatermark()), Repeat(l))`.

    With `always` a pane is emitted when the watermark passes the end of a window, even if no row has arrived since the
    last pane, so that consumers see that the window is complete. That pane is unchanged, or (discarding) empty. A
    window exists from its first row; one without rows has no pane. Afterwards late rows fire as without `always`.

    Source:
        For `always` Apache Beam's `OnTimeBehavior.FIRE_ALWAYS`; without it is `FIRE_IF_NON_EMPTY`.
    """

    early: "Trigger | None" = None
    late: "Trigger | None" = None
    always: bool = False

    def __post_init__(self) -> None:
        if self.early is not None:
            _check_fires_before(AtWatermark(), self.early, "AtWatermark(early=...)")


@dataclass(frozen=True, slots=True)
class Until:
    """Trigger that runs until another one fires; at that moment it fires a last time and finishes."""

    of: "Trigger"
    until: "Once"

    def __post_init__(self) -> None:
        if not fires_once(self.until):
            hint = "AtWatermark(), Every(..), AfterCount(..), AfterDelay(..) or EachEpoch()."
            _reject("Until", "an end that fires once", str(self.until), hint)
        _check_fires_before(self.until, self.of, "Until")


Once = AtWatermark | Every | AfterCount | AfterDelay | EachEpoch
Trigger = Once | Repeat | Until | Sequence

DEFAULT_TRIGGER = Repeat(AtWatermark())
"""Trigger of a scenario that names none, as in the paper and in Beam."""


def RepeatUntil(of: Trigger, until: Once) -> Until:  # noqa: N802 -- reads as a value
    """Make `Until(Repeat(of), until)`."""
    return Until(Repeat(of), until)


def fires_once(trigger: Trigger) -> TypeGuard[Once]:
    """Return whether a trigger finishes with its first firing, so that it can end another one."""
    if isinstance(trigger, AtWatermark):
        return trigger.early is None and trigger.late is None
    return isinstance(trigger, (Every, AfterCount, AfterDelay, EachEpoch))


def waits_for_watermark(trigger: Trigger) -> bool:
    """Return whether no part of a trigger can fire before the watermark passes the end of the window."""
    match trigger:
        case Repeat(of=of):
            return waits_for_watermark(of)
        case Until(of=of, until=until):
            return waits_for_watermark(of) and waits_for_watermark(until)
        case Sequence(parts=parts):
            return waits_for_watermark(parts[0])
        case AtWatermark(early=early):
            return early is None
        case _:
            return False


def has_epoch_trigger(trigger: Trigger) -> bool:
    """Return whether a part of a trigger fires at the end of an epoch."""
    match trigger:
        case Repeat(of=of):
            return has_epoch_trigger(of)
        case Until(of=of, until=until):
            return has_epoch_trigger(of) or has_epoch_trigger(until)
        case Sequence(parts=parts):
            return any(has_epoch_trigger(part) for part in parts)
        case AtWatermark(early=early, late=late):
            return any(has_epoch_trigger(part) for part in (early, late) if part is not None)
        case _:
            return isinstance(trigger, EachEpoch)


def is_finite(trigger: Trigger) -> bool:
    """Return whether a trigger can finish; false for `Repeat`, for `late`, and for a sequence that ends with one."""
    match trigger:
        case Repeat():
            return False
        case Sequence(parts=parts):
            return is_finite(parts[-1])
        case AtWatermark(late=late):
            return late is None
        case _:
            return True


def _check_fires_before(end: Trigger, of: Trigger, thing: Literal["Until", "AtWatermark(early=...)"]) -> None:
    """Reject a trigger of which no part can fire before its end does."""
    never_fires = waits_for_watermark(end) and waits_for_watermark(of)
    if isinstance(end, AfterCount):
        never_fires = _count_rows_to_fire(of) > end.rows
    if never_fires:
        _reject(
            thing, "a trigger that can fire before the end", f"{of} until {end}", "it could never fire; leave it out."
        )


def _count_rows_to_fire(trigger: Trigger) -> int:
    """Return the minimum number of rows before any part of a trigger can fire."""
    match trigger:
        case Repeat(of=of):
            return _count_rows_to_fire(of)
        case Until(of=of, until=until):
            return min(_count_rows_to_fire(of), _count_rows_to_fire(until))
        case Sequence(parts=parts):
            return _count_rows_to_fire(parts[0])
        case AfterCount(rows=rows):
            return rows
        case _:
            return 1
