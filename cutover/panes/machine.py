"""State machines of triggers, one per window. Frozen: each step returns the next state.

The rules are those of `cutover.definition.model.triggers`. `merge_with` adds the rules for sessions that merge: the
merged session takes the state of the session that had progressed least, counts add up, and the earliest period applies.
A session that grows beyond the watermark is incomplete again: the parts that the watermark had ended start again.

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
    """Moment at which a trigger is evaluated."""

    now: int  # processing time
    is_past_end: bool  # the watermark has passed the end of the window
    passes_end: bool = False  # the watermark passes the end of the window at this moment
    is_complete: bool = False  # every row of this moment has arrived, so a period may end
    epoch_ends: bool = False


class Ended(Enum):
    """Way in which a trigger ended."""

    FOR_GOOD = auto()
    BY_WATERMARK = auto()  # undone when a session grows beyond the watermark


class Machine(Protocol):
    """State of a trigger in one window."""

    @property
    def due(self) -> int | None:
        """Return the processing time at which the trigger must be evaluated next, if time alone can make it fire."""

    def with_rows(self, now: int, rows: int) -> Self:
        """Return the state after more rows, at least one, that arrived together."""

    def is_ready(self, moment: TriggerMoment) -> bool:
        """Return whether a firing is due at this moment; `fire_at` may be called only then."""

    def fires_without_rows(self, moment: TriggerMoment) -> bool:
        """Return whether a firing emits a pane even if no row has arrived since the previous pane."""

    def fire_at(self, moment: TriggerMoment) -> "Machine | Ended":
        """Return the state after a firing; the machine must be ready."""

    def merge_with(self, peers: "Several[Self]", *, is_past_end: bool) -> Self:
        """Merge the states of one trigger in several sessions into the state of the merged session."""


@dataclass(frozen=True, slots=True)
class _CountMachine:
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

    def merge_with(self, peers: Several[Self], *, is_past_end: bool) -> Self:  # noqa: ARG002 -- every machine's signature
        return replace(self, rows=self.rows + sum(peer.rows for peer in peers))


@dataclass(frozen=True, slots=True)
class _TimedMachine:
    trigger: Every | AfterDelay
    due: int | None = None  # end of the period in which the first row arrived, or of the delay that starts with it

    def with_rows(self, now: int, rows: int) -> Self:  # noqa: ARG002 -- every machine's signature
        return self if self.due is not None else replace(self, due=_end_of_wait(self.trigger, now))

    def is_ready(self, moment: TriggerMoment) -> bool:
        return moment.is_complete and self.due is not None and self.due <= moment.now

    def fires_without_rows(self, moment: TriggerMoment) -> bool:  # noqa: ARG002 -- every machine's signature
        return False

    def fire_at(self, moment: TriggerMoment) -> Ended:  # noqa: ARG002 -- every machine's signature
        return Ended.FOR_GOOD

    def merge_with(self, peers: Several[Self], *, is_past_end: bool) -> Self:  # noqa: ARG002 -- every machine's signature
        return replace(
            self, due=min((machine.due for machine in (self, *peers) if machine.due is not None), default=None)
        )


@dataclass(frozen=True, slots=True)
class _RowMachine:
    """Fires at the watermark or at the end of an epoch, if a row has arrived."""

    trigger: AtWatermark | EachEpoch
    has_rows: bool = False
    due: int | None = None

    def with_rows(self, now: int, rows: int) -> Self:  # noqa: ARG002 -- every machine's signature
        return self if self.has_rows else replace(self, has_rows=True)

    def is_ready(self, moment: TriggerMoment) -> bool:
        fires = moment.is_past_end if isinstance(self.trigger, AtWatermark) else moment.epoch_ends
        return (self.has_rows and fires) or self.fires_without_rows(moment)

    def fires_without_rows(self, moment: TriggerMoment) -> bool:
        return isinstance(self.trigger, AtWatermark) and self.trigger.always and moment.passes_end

    def fire_at(self, moment: TriggerMoment) -> Ended:  # noqa: ARG002 -- every machine's signature
        return Ended.BY_WATERMARK if isinstance(self.trigger, AtWatermark) else Ended.FOR_GOOD

    def merge_with(self, peers: Several[Self], *, is_past_end: bool) -> Self:  # noqa: ARG002 -- every machine's signature
        return replace(self, has_rows=any(machine.has_rows for machine in (self, *peers)))


@dataclass(frozen=True, slots=True)
class _RepeatMachine:
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
        inner = self.inner.fire_at(moment)
        return type(self)(self.trigger, begin(self.trigger.of) if isinstance(inner, Ended) else inner)

    def merge_with(self, peers: Several[Self], *, is_past_end: bool) -> Self:
        return replace(self, inner=self.inner.merge_with([peer.inner for peer in peers], is_past_end=is_past_end))


@dataclass(frozen=True, slots=True)
class _UntilMachine:
    inner: Machine
    limit: Machine  # ends the trigger when it fires

    @property
    def due(self) -> int | None:
        return min((due for due in (self.inner.due, self.limit.due) if due is not None), default=None)

    def with_rows(self, now: int, rows: int) -> Self:
        return type(self)(self.inner.with_rows(now, rows), self.limit.with_rows(now, rows))

    def is_ready(self, moment: TriggerMoment) -> bool:
        return self.inner.is_ready(moment) or self.limit.is_ready(moment)

    def fires_without_rows(self, moment: TriggerMoment) -> bool:
        return self.inner.fires_without_rows(moment) or self.limit.fires_without_rows(moment)

    def fire_at(self, moment: TriggerMoment) -> Machine | Ended:
        if self.limit.is_ready(moment):
            return self.limit.fire_at(moment)
        inner = self.inner.fire_at(moment)
        return inner if isinstance(inner, Ended) else type(self)(inner, self.limit)

    def merge_with(self, peers: Several[Self], *, is_past_end: bool) -> Self:
        return replace(
            self,
            inner=self.inner.merge_with([peer.inner for peer in peers], is_past_end=is_past_end),
            limit=self.limit.merge_with([peer.limit for peer in peers], is_past_end=is_past_end),
        )


@dataclass(frozen=True, slots=True)
class _SequenceMachine:
    trigger: Sequence
    inner: Machine
    endings: tuple[Ended, ...] = ()  # one for each part that has ended

    @property
    def due(self) -> int | None:
        return self.inner.due

    def with_rows(self, now: int, rows: int) -> Self:
        return type(self)(self.trigger, self.inner.with_rows(now, rows), self.endings)

    def is_ready(self, moment: TriggerMoment) -> bool:
        return self.inner.is_ready(moment)

    def fires_without_rows(self, moment: TriggerMoment) -> bool:
        return self.inner.fires_without_rows(moment)

    def fire_at(self, moment: TriggerMoment) -> Machine | Ended:
        inner = self.inner.fire_at(moment)
        if not isinstance(inner, Ended):
            return type(self)(self.trigger, inner, self.endings)
        endings = (*self.endings, inner)
        if len(endings) == len(self.trigger.parts):
            return inner
        return replace(self, inner=begin(self.trigger.parts[len(endings)]), endings=endings)

    def merge_with(self, peers: Several[Self], *, is_past_end: bool) -> Self:
        machines = [machine if is_past_end else machine.reopen_watermark() for machine in (self, *peers)]
        position = min(len(machine.endings) for machine in machines)
        inners = [machine.inner for machine in machines if len(machine.endings) == position]
        base = next(machine for machine in machines if len(machine.endings) == position)
        return replace(base, inner=inners[0].merge_with(inners[1:], is_past_end=is_past_end))

    def reopen_watermark(self) -> Self:
        """Return to the first part that the watermark ended, if there is one."""
        if Ended.BY_WATERMARK not in self.endings:
            return self
        position = self.endings.index(Ended.BY_WATERMARK)
        return replace(self, inner=begin(self.trigger.parts[position]), endings=self.endings[:position])


def begin(trigger: Trigger) -> Machine:
    """Return the initial state of a trigger, before any row."""
    match _expand_trigger(trigger):
        case Repeat(of=of) as repeat:
            return _RepeatMachine(repeat, begin(of))
        case Until(of=of, until=limit):
            return _UntilMachine(begin(of), begin(limit))
        case Sequence(parts=parts) as sequence:
            return _SequenceMachine(sequence, begin(parts[0]))
        case once:
            return _begin_once(once)


def _begin_once(trigger: Once) -> Machine:
    match trigger:
        case AfterCount():
            return _CountMachine(trigger)
        case Every() | AfterDelay():
            return _TimedMachine(trigger)
        case _:
            return _RowMachine(trigger)


def _end_of_wait(trigger: Every | AfterDelay, now: int) -> int:
    if isinstance(trigger, AfterDelay):
        return now + trigger.delay_micros
    period = trigger.period_micros
    return -(-now // period) * period


def _expand_trigger(trigger: Trigger) -> Trigger:
    """Expand `AtWatermark` with early or late firings into the equivalent sequence; return other triggers unchanged."""
    if not isinstance(trigger, AtWatermark) or fires_once(trigger):
        return trigger
    end = AtWatermark(always=trigger.always)
    on_time = end if trigger.early is None else Until(Repeat(trigger.early), end)
    return on_time if trigger.late is None else Sequence(on_time, Repeat(trigger.late))


def merge(trigger: Trigger, machines: "Several[Machine | Ended]", *, is_past_end: bool) -> Machine | Ended:
    """Merge the states of a trigger in sessions that merge, or update the state of a session that grows.

    Args:
        trigger: Trigger of all the machines.
        machines: State of the trigger in each session; empty for a new session.
        is_past_end: The watermark has passed the end of the merged session.

    Returns:
        State in the merged session; `Ended` only if the trigger had ended in every session and does not start again.
    """
    live = [machine for machine in machines if not isinstance(machine, Ended)]
    if len(live) < len(machines) and not is_past_end and Ended.BY_WATERMARK in machines:
        live.append(begin(trigger))
    if not machines:
        return begin(trigger)
    if not live:
        return Ended.BY_WATERMARK if Ended.BY_WATERMARK in machines else Ended.FOR_GOOD
    return live[0].merge_with(live[1:], is_past_end=is_past_end)


Plain = Any
"""State of a trigger as a JSON value."""


def dump_machine(machine: Machine | Ended) -> Plain:
    """Encode the state of a trigger as a JSON value, which `load_machine` parses."""
    match machine:
        case Ended():
            plain: Plain = machine.name
        case _CountMachine(rows=state) | _TimedMachine(due=state) | _RowMachine(has_rows=state):
            plain = state
        case _UntilMachine(inner=inner, limit=limit):
            plain = [dump_machine(inner), dump_machine(limit)]
        case _SequenceMachine(inner=inner, endings=endings):
            plain = [[ending.name for ending in endings], dump_machine(inner)]
        case _RepeatMachine(inner=inner):
            plain = dump_machine(inner)
        case _:
            raise _make_unknown_error(machine)
    return plain


def load_machine(trigger: Trigger, plain: Plain) -> Machine | Ended:
    """Parse the state that `dump_machine` encoded, for the same trigger."""
    return Ended[plain] if isinstance(plain, str) else _restore_machine(begin(trigger), plain)


def _restore_machine(fresh: Machine, plain: Plain) -> Machine:
    match fresh:
        case _CountMachine():
            return replace(fresh, rows=plain)
        case _TimedMachine():
            return replace(fresh, due=plain)
        case _RowMachine():
            return replace(fresh, has_rows=plain)
        case _UntilMachine(inner=inner, limit=limit):
            return replace(fresh, inner=_restore_machine(inner, plain[0]), limit=_restore_machine(limit, plain[1]))
        case _SequenceMachine(trigger=trigger):
            endings = tuple(Ended[name] for name in plain[0])
            return replace(fresh, endings=endings, inner=_restore_machine(begin(trigger.parts[len(endings)]), plain[1]))
        case _RepeatMachine(inner=inner):
            return replace(fresh, inner=_restore_machine(inner, plain))
    raise _make_unknown_error(fresh)


def _make_unknown_error(machine: Machine) -> TypeError:
    return TypeError(f"Unexpected trigger machine: {machine!r}")
