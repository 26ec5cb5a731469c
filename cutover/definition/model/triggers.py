"""When in processing time, and how: what makes a pane come out, and how panes of one window relate.

A trigger is a frozen value. What each part means, said once for every engine:

- **A part looks at the rows that reached it since it began**, and it fires only if there were any; but for
  `AtWatermark(always=True)`. A part that begins again, or a part of a sequence whose turn comes, begins without rows.
- **A firing takes everything that no pane has shown yet.** If there is nothing, no pane comes out (again but for
  `always`), but the trigger has fired: a sequence goes on.
- **A trigger that has come to its end fires no more**: rows that come afterwards are dropped, and counted.

Source:
    Akidau et al., The Dataflow Model, VLDB 2015, section 2.3; for what the paper leaves open, the triggers of Apache
    Beam (`AfterEach`, `orFinally`, `Repeatedly`).
"""

from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Literal, NoReturn, TypeGuard

from cutover.durations import parse_duration
from cutover.errors import DefinitionError


class Accumulation(StrEnum):
    """How the panes of a window relate."""

    DISCARDING = "discarding"  # a pane holds what came since the last one; the sum of all panes is the result
    ACCUMULATING = "accumulating"  # a pane holds everything; the last one is the result
    RETRACTING = "retracting"  # as accumulating; before it, in the same firing, each superseded pane is taken back


def _refuse(thing: str, expected: str, got: str, hint: str) -> NoReturn:
    msg = f"Trigger `{thing}`: expected {expected}, got {got}.\nHint: {hint}"
    raise DefinitionError(msg)


@dataclass(frozen=True, slots=True)
class Every:
    """At the end of a period in which rows came. Periods are aligned: they end at multiples of it in processing time.

    A row that arrives exactly at the end of a period is part of that pane.
    """

    period: str  # such as `1 minute`

    def __post_init__(self) -> None:
        if self.period_micros == 0:
            _refuse("Every", "a period longer than nothing", f"`{self.period}`", "such as `1 minute`.")

    @property
    def period_micros(self) -> int:
        """In microseconds."""
        return parse_duration(self.period, of="trigger.every")


@dataclass(frozen=True, slots=True)
class AfterCount:
    """With the n-th row."""

    rows: int

    def __post_init__(self) -> None:
        if self.rows < 1:
            _refuse("AfterCount", "at least one row", str(self.rows), "it would never fire, or never stop.")


@dataclass(frozen=True, slots=True)
class AfterDelay:
    """A delay after the first row, in processing time: not aligned, so windows and keys fire apart from one another.

    A row that arrives exactly at the end of the delay is part of that pane.

    Source:
        Apache Beam's `AfterProcessingTime.pastFirstElementInPane().plusDelayOf(..)`; Akidau et al., Streaming Systems,
        O'Reilly 2018, chapter 2 (`UnalignedDelay`).
    """

    delay: str  # such as `2 minutes`

    def __post_init__(self) -> None:
        if self.delay_micros == 0:
            _refuse("AfterDelay", "a delay longer than nothing", f"`{self.delay}`", "AfterCount(1) fires with a row.")

    @property
    def delay_micros(self) -> int:
        """In microseconds."""
        return parse_duration(self.delay, of="trigger.after_delay")


@dataclass(frozen=True, slots=True)
class EachEpoch:
    """At the end of an epoch (a micro-batch) in which rows came."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """A trigger over and over: once it has come to its end it begins again."""

    of: "Trigger"


@dataclass(frozen=True, slots=True, init=False)
class Sequence:
    """Triggers one after the other, each from where the one before came to its end."""

    parts: tuple["Trigger", ...]

    def __init__(self, *parts: "Trigger") -> None:
        object.__setattr__(self, "parts", parts)
        if not self.parts:
            _refuse("Sequence", "at least one trigger", "none", "it would never fire.")
        for before, after in pairwise(self.parts):
            if not ends(before):
                _refuse("Sequence", "parts that end", f"{before} before {after}", "the second could never fire; Until?")


@dataclass(frozen=True, slots=True)
class AtWatermark:
    """Once the watermark has passed the end of the window: everything is expected to be in.

    `Repeat(AtWatermark())` fires then, and again with each late row. `early` fires over and over before it, `late` over
    and over behind it: `AtWatermark(early=e, late=l)` is `Sequence(Until(Repeat(e), AtWatermark()), Repeat(l))`.

    With `always` a pane comes out at the moment in which the watermark passes the end of a window, even if no row has
    come since the last pane: consumers see that the window is complete. It is unchanged, or (discarding) of no rows. A
    window exists from its first row on; one without rows has no pane. Afterwards late rows fire as without `always`.

    Source:
        For `always` Apache Beam's `OnTimeBehavior.FIRE_ALWAYS`; without it is `FIRE_IF_NON_EMPTY`.
    """

    early: "Trigger | None" = None
    late: "Trigger | None" = None
    always: bool = False

    def __post_init__(self) -> None:
        if self.early is not None:
            _may_fire_before(AtWatermark(), self.early, "AtWatermark(early=...)")


@dataclass(frozen=True, slots=True)
class Until:
    """A trigger, until another one fires: then the whole fires a last time and has come to its end."""

    of: "Trigger"
    until: "Once"

    def __post_init__(self) -> None:
        if not fires_once(self.until):
            hint = "AtWatermark(), Every(..), AfterCount(..), AfterDelay(..) or EachEpoch()."
            _refuse("Until", "an end that fires once", str(self.until), hint)
        _may_fire_before(self.until, self.of, "Until")


Once = AtWatermark | Every | AfterCount | AfterDelay | EachEpoch
Trigger = Once | Repeat | Until | Sequence

DEFAULT = Repeat(AtWatermark())
"""The trigger of who asks for none: the paper's, and Beam's."""


def RepeatUntil(of: Trigger, until: Once) -> Until:  # noqa: N802 -- reads as a value
    """Short for `Until(Repeat(of), until)`."""
    return Until(Repeat(of), until)


def fires_once(trigger: Trigger) -> TypeGuard[Once]:
    """Return whether a trigger has come to its end once it has fired, so that it may be the end of another one."""
    if isinstance(trigger, AtWatermark):
        return trigger.early is None and trigger.late is None
    return isinstance(trigger, (Every, AfterCount, AfterDelay, EachEpoch))


def waits_for_watermark(trigger: Trigger) -> bool:
    """Return whether nothing of a trigger can fire before the watermark has passed the end of the window."""
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


def uses_epochs(trigger: Trigger) -> bool:
    """Return whether a part of a trigger fires at the end of an epoch."""
    match trigger:
        case Repeat(of=of):
            return uses_epochs(of)
        case Until(of=of, until=until):
            return uses_epochs(of) or uses_epochs(until)
        case Sequence(parts=parts):
            return any(uses_epochs(part) for part in parts)
        case AtWatermark(early=early, late=late):
            return any(uses_epochs(part) for part in (early, late) if part is not None)
        case _:
            return isinstance(trigger, EachEpoch)


def ends(trigger: Trigger) -> bool:
    """Say no for a `Repeat`, for late panes without an end, and for a sequence that ends with one."""
    match trigger:
        case Repeat():
            return False
        case Sequence(parts=parts):
            return ends(parts[-1])
        case AtWatermark(late=late):
            return late is None
        case _:
            return True


def _may_fire_before(end: Trigger, of: Trigger, thing: Literal["Until", "AtWatermark(early=...)"]) -> None:
    """Refuse a trigger of which nothing can fire before its end does."""
    never = waits_for_watermark(end) and waits_for_watermark(of)
    if isinstance(end, AfterCount):
        never = _least_rows(of) > end.rows
    if never:
        _refuse(
            thing, "a trigger that can fire before the end", f"{of} until {end}", "it could never fire; leave it out."
        )


def _least_rows(trigger: Trigger) -> int:
    """Return how many rows there must be before anything of a trigger can fire."""
    match trigger:
        case Repeat(of=of):
            return _least_rows(of)
        case Until(of=of, until=until):
            return min(_least_rows(of), _least_rows(until))
        case Sequence(parts=parts):
            return _least_rows(parts[0])
        case AfterCount(rows=rows):
            return rows
        case _:
            return 1
