"""A trigger at work in one window: how far it is. Frozen; each step returns the next machine.

The rules are those of `cutover.definition.model.triggers`. `merge_with` adds what happens when sessions become one: the
session stands where the one stood that was least far, counts add up, and the earliest period counts. A session that
grows beyond the watermark is incomplete again: what had ended by the watermark begins anew.

Source:
    Akidau et al., The Dataflow Model, VLDB 2015, section 2.3; Apache Beam's `onMerge` of `AfterWatermark` (a merged
    window whose end is not reached is unfinished again).
"""

from collections.abc import Sequence as Several
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, Protocol, Self

from cutover.definition.model.triggers import (
    AfterCount,
    AfterDelay,
    AtWatermark,
    EachEpoch,
    Every,
    Once,
    Repeat,
    Sequence,
    Trigger,
    Until,
    fires_once,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerMoment:
    """What a trigger is asked about."""

    now: int  # processing time
    passed: bool  # the watermark has passed the end of the window
    passes: bool = False  # it does so in this moment
    settled: bool = False  # every row of this moment is in, so that a period may end
    epoch_ends: bool = False


class Ended(Enum):
    """How a trigger came to its end."""

    FOR_GOOD = auto()
    BY_WATERMARK = auto()  # taken back when a session grows beyond the watermark


class Machine(Protocol):
    """How far a trigger is in one window."""

    @property
    def due(self) -> int | None:
        """Return when it must be asked next, if time alone can make it fire."""

    def with_rows(self, now: int, rows: int) -> Self:
        """Return it after more rows, at least one, that came at once."""

    def is_ready(self, moment: TriggerMoment) -> bool:
        """Whether a firing is due at this moment; `fire_at` may be called only then."""

    def fires_without_rows(self, moment: TriggerMoment) -> bool:
        """Return whether a pane comes out of its firing even if no row has come since the last one."""

    def fire_at(self, moment: TriggerMoment) -> "Machine | Ended":
        """Return it after a firing for which it was ready."""

    def merge_with(self, others: "Several[Self]", *, passed: bool) -> Self:
        """Return what it and others of the same trigger become in one session."""


@dataclass(frozen=True, slots=True)
class _Counting:
    trigger: AfterCount
    rows: int = 0
    due: int | None = None

    def with_rows(self, now: int, rows: int) -> Self:  # noqa: ARG002 -- every machine's signature
        return type(self)(self.trigger, self.rows + rows)

    def is_ready(self, moment: TriggerMoment) -> bool:  # noqa: ARG002 -- every machine's signature
        return self.rows >= self.trigger.rows

    def fires_without_rows(self, moment: TriggerMoment) -> bool:  # noqa: ARG002 -- every machine's signature
        return False

    def fire_at(self, moment: TriggerMoment) -> Ended:  # noqa: ARG002 -- every machine's signature
        return Ended.FOR_GOOD

    def merge_with(self, others: Several[Self], *, passed: bool) -> Self:  # noqa: ARG002 -- every machine's signature
        return replace(self, rows=self.rows + sum(other.rows for other in others))


@dataclass(frozen=True, slots=True)
class _TimedMachine:
    trigger: Every | AfterDelay
    due: int | None = None  # the end of the period in which the first row came, or of the delay behind it

    def with_rows(self, now: int, rows: int) -> Self:  # noqa: ARG002 -- every machine's signature
        return self if self.due is not None else replace(self, due=_end_of_wait(self.trigger, now))

    def is_ready(self, moment: TriggerMoment) -> bool:
        return moment.settled and self.due is not None and self.due <= moment.now

    def fires_without_rows(self, moment: TriggerMoment) -> bool:  # noqa: ARG002 -- every machine's signature
        return False

    def fire_at(self, moment: TriggerMoment) -> Ended:  # noqa: ARG002 -- every machine's signature
        return Ended.FOR_GOOD

    def merge_with(self, others: Several[Self], *, passed: bool) -> Self:  # noqa: ARG002 -- every machine's signature
        return replace(self, due=min((one.due for one in (self, *others) if one.due is not None), default=None))


@dataclass(frozen=True, slots=True)
class _Seeing:
    """At the watermark, or at the end of an epoch, if there was a row."""

    trigger: AtWatermark | EachEpoch
    seen: bool = False
    due: int | None = None

    def with_rows(self, now: int, rows: int) -> Self:  # noqa: ARG002 -- every machine's signature
        return self if self.seen else replace(self, seen=True)

    def is_ready(self, moment: TriggerMoment) -> bool:
        fires = moment.passed if isinstance(self.trigger, AtWatermark) else moment.epoch_ends
        return (self.seen and fires) or self.fires_without_rows(moment)

    def fires_without_rows(self, moment: TriggerMoment) -> bool:
        return isinstance(self.trigger, AtWatermark) and self.trigger.always and moment.passes

    def fire_at(self, moment: TriggerMoment) -> Ended:  # noqa: ARG002 -- every machine's signature
        return Ended.BY_WATERMARK if isinstance(self.trigger, AtWatermark) else Ended.FOR_GOOD

    def merge_with(self, others: Several[Self], *, passed: bool) -> Self:  # noqa: ARG002 -- every machine's signature
        return replace(self, seen=any(one.seen for one in (self, *others)))


@dataclass(frozen=True, slots=True)
class _Repeating:
    trigger: Repeat
    inner: Machine

    @property
    def due(self) -> int | None:
        return self.inner.due

    def with_rows(self, now: int, rows: int) -> Self:
        return type(self)(self.trigger, self.inner.with_rows(now, rows))

    def is_ready(self, moment: TriggerMoment) -> bool:
        return self.inner.is_ready(moment)

    def fires_without_rows(self, moment: TriggerMoment) -> bool:
        return self.inner.fires_without_rows(moment)

    def fire_at(self, moment: TriggerMoment) -> Machine:
        after = self.inner.fire_at(moment)
        return type(self)(self.trigger, begin(self.trigger.of) if isinstance(after, Ended) else after)

    def merge_with(self, others: Several[Self], *, passed: bool) -> Self:
        return replace(self, inner=self.inner.merge_with([other.inner for other in others], passed=passed))


@dataclass(frozen=True, slots=True)
class _Stopping:
    inner: Machine
    until: Machine  # of a trigger that ends when it fires

    @property
    def due(self) -> int | None:
        return min((due for due in (self.inner.due, self.until.due) if due is not None), default=None)

    def with_rows(self, now: int, rows: int) -> Self:
        return type(self)(self.inner.with_rows(now, rows), self.until.with_rows(now, rows))

    def is_ready(self, moment: TriggerMoment) -> bool:
        return self.inner.is_ready(moment) or self.until.is_ready(moment)

    def fires_without_rows(self, moment: TriggerMoment) -> bool:
        return self.inner.fires_without_rows(moment) or self.until.fires_without_rows(moment)

    def fire_at(self, moment: TriggerMoment) -> Machine | Ended:
        if self.until.is_ready(moment):
            return self.until.fire_at(moment)
        after = self.inner.fire_at(moment)
        return after if isinstance(after, Ended) else type(self)(after, self.until)

    def merge_with(self, others: Several[Self], *, passed: bool) -> Self:
        return replace(
            self,
            inner=self.inner.merge_with([other.inner for other in others], passed=passed),
            until=self.until.merge_with([other.until for other in others], passed=passed),
        )


@dataclass(frozen=True, slots=True)
class _Stepping:
    trigger: Sequence
    inner: Machine
    behind: tuple[Ended, ...] = ()  # how each part that is over ended

    @property
    def due(self) -> int | None:
        return self.inner.due

    def with_rows(self, now: int, rows: int) -> Self:
        return type(self)(self.trigger, self.inner.with_rows(now, rows), self.behind)

    def is_ready(self, moment: TriggerMoment) -> bool:
        return self.inner.is_ready(moment)

    def fires_without_rows(self, moment: TriggerMoment) -> bool:
        return self.inner.fires_without_rows(moment)

    def fire_at(self, moment: TriggerMoment) -> Machine | Ended:
        after = self.inner.fire_at(moment)
        if not isinstance(after, Ended):
            return type(self)(self.trigger, after, self.behind)
        behind = (*self.behind, after)
        if len(behind) == len(self.trigger.parts):
            return after
        return replace(self, inner=begin(self.trigger.parts[len(behind)]), behind=behind)

    def merge_with(self, others: Several[Self], *, passed: bool) -> Self:
        reached = [one if passed else one.reopen_watermark() for one in (self, *others)]
        least = min(len(one.behind) for one in reached)
        one, *rest = [one for one in reached if len(one.behind) == least]
        return replace(one, inner=one.inner.merge_with([other.inner for other in rest], passed=passed))

    def reopen_watermark(self) -> Self:
        if Ended.BY_WATERMARK not in self.behind:
            return self
        position = self.behind.index(Ended.BY_WATERMARK)
        return replace(self, inner=begin(self.trigger.parts[position]), behind=self.behind[:position])


def begin(trigger: Trigger) -> Machine:
    """Return a trigger that has seen no row yet."""
    match _expand_trigger(trigger):
        case Repeat(of=of) as plain:
            return _Repeating(plain, begin(of))
        case Until(of=of, until=until):
            return _Stopping(begin(of), begin(until))
        case Sequence(parts=parts) as plain:
            return _Stepping(plain, begin(parts[0]))
        case once:
            return _begin_once(once)


def _begin_once(trigger: Once) -> Machine:
    match trigger:
        case AfterCount():
            return _Counting(trigger)
        case Every() | AfterDelay():
            return _TimedMachine(trigger)
        case _:
            return _Seeing(trigger)


def _end_of_wait(trigger: Every | AfterDelay, now: int) -> int:
    if isinstance(trigger, AfterDelay):
        return now + trigger.delay_micros
    period = trigger.period_micros
    return -(-now // period) * period


def _expand_trigger(trigger: Trigger) -> Trigger:
    """Return `AtWatermark` with an early or a late part as the sequence that it stands for; any other as it is."""
    if not isinstance(trigger, AtWatermark) or fires_once(trigger):
        return trigger
    end = AtWatermark(always=trigger.always)
    on_time = end if trigger.early is None else Until(Repeat(trigger.early), end)
    return on_time if trigger.late is None else Sequence(on_time, Repeat(trigger.late))


def merge(trigger: Trigger, machines: "Several[Machine | Ended]", *, passed: bool) -> Machine | Ended:
    """Return how far a trigger is in a session that was several, or has grown.

    Args:
        trigger: Of which all machines are.
        machines: How far it was in each session; none: in a new one.
        passed: The watermark has passed the end of the one session.

    Returns:
        One machine; `Ended` only if the trigger had come to its end in all of them and stays there.
    """
    live = [machine for machine in machines if not isinstance(machine, Ended)]
    if len(live) < len(machines) and not passed and Ended.BY_WATERMARK in machines:
        live.append(begin(trigger))
    if not machines:
        return begin(trigger)
    if not live:
        return Ended.BY_WATERMARK if Ended.BY_WATERMARK in machines else Ended.FOR_GOOD
    return live[0].merge_with(live[1:], passed=passed)


Plain = Any
"""How far a trigger is, as JSON has it."""


def dump_machine(machine: Machine | Ended) -> Plain:
    """Return how far a trigger is; `load_machine` makes a machine of it again."""
    match machine:
        case Ended():
            plain: Plain = machine.name
        case _Counting(rows=known) | _TimedMachine(due=known) | _Seeing(seen=known):
            plain = known
        case _Stopping(inner=inner, until=until):
            plain = [dump_machine(inner), dump_machine(until)]
        case _Stepping(inner=inner, behind=behind):
            plain = [[how.name for how in behind], dump_machine(inner)]
        case _Repeating(inner=inner):
            plain = dump_machine(inner)
        case _:
            raise _make_unknown_error(machine)
    return plain


def load_machine(trigger: Trigger, plain: Plain) -> Machine | Ended:
    """Take up what `dump_machine` wrote, for the same trigger."""
    return Ended[plain] if isinstance(plain, str) else _restore_machine(begin(trigger), plain)


def _restore_machine(fresh: Machine, plain: Plain) -> Machine:
    match fresh:
        case _Counting():
            return replace(fresh, rows=plain)
        case _TimedMachine():
            return replace(fresh, due=plain)
        case _Seeing():
            return replace(fresh, seen=plain)
        case _Stopping(inner=inner, until=until):
            return replace(fresh, inner=_restore_machine(inner, plain[0]), until=_restore_machine(until, plain[1]))
        case _Stepping(trigger=trigger):
            behind = tuple(Ended[how] for how in plain[0])
            return replace(fresh, behind=behind, inner=_restore_machine(begin(trigger.parts[len(behind)]), plain[1]))
        case _Repeating(inner=inner):
            return replace(fresh, inner=_restore_machine(inner, plain))
    raise _make_unknown_error(fresh)


def _make_unknown_error(machine: Machine) -> TypeError:
    return TypeError(f"a machine of no known trigger: {machine!r}")
