"""Paths through a job: assignments of each arm of a condition, and how arms are joined."""

import ast
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cutover.parity.jobs.values import (
    Arm,
    Constant,
    Frame,
    Imported,
    Instance,
    JobClass,
    JobFunction,
    JobValue,
    Listing,
    Method,
    OneOf,
    Session,
    Table,
    alternatives,
    choose,
    derive,
    describe,
)

Store = dict[Any, JobValue]
"""Names of a scope, attributes of an object, items of a dict, or views of the session."""

Evaluate = Callable[[ast.expr], JobValue]


@dataclass(eq=False)
class Assignment:
    """A name, attribute or item that was assigned, with its values before and after."""

    store: Store
    key: object
    before: JobValue | None  # None: it did not exist
    values: list[JobValue]  # every value that was assigned, in order


Assignments = dict[tuple[int, object], Assignment]
End = tuple[Assignments, tuple[Arm, ...]]
"""Changes at the end of a path, with the arms that it took."""


@dataclass(eq=False)
class Activation:
    """A function that is being followed: what it has returned, and where the names stood when it began."""

    start: int
    depth: int  # arms that were taken before it
    returned: list[JobValue] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)


@dataclass(eq=False)
class Loop:
    """A loop that is being followed."""

    start: int
    depth: int  # arms that were taken before it
    round: int = 0  # where the names stood when the current round began
    continued: list[End] = field(default_factory=list)
    broken: list[End] = field(default_factory=list)


@dataclass(eq=False)
class AssignmentLog:
    """Changes in their order, so that an arm can be undone before another one is followed."""

    entries: list[Assignment] = field(default_factory=list)
    attempts: list[list[Assignment]] = field(default_factory=list)  # assignments in bodies of `try` that may be cut off

    def assign(self, store: Store, key: object, value: JobValue) -> None:
        """Assign a value and record it."""
        change = Assignment(store, key, store.get(key), [value])
        self.entries.append(change)
        for attempt in self.attempts:
            attempt.append(change)
        store[key] = value

    def mark(self) -> int:
        """Return the position that later changes are counted from."""
        return len(self.entries)

    def list_changes(self, mark: int) -> Assignments:
        """Merge what was assigned since a position: one entry a name, with its first and last values."""
        return _merge_changes(self.entries[mark:])

    def undo(self, mark: int) -> Assignments:
        """Undo the changes since a position and return them."""
        changes = self.list_changes(mark)
        del self.entries[mark:]
        for change in changes.values():
            if change.before is None:
                change.store.pop(change.key, None)
            else:
                change.store[change.key] = change.before
        return changes

    def join(self, ends: Sequence[End]) -> None:
        """Assign the joined value of each name that any path has changed."""
        keys = {key: change for changes, _ in ends for key, change in changes.items()}
        for key, change in keys.items():
            values = [(changes[key].values[-1] if key in changes else change.before, arms) for changes, arms in ends]
            self.assign(change.store, change.key, join_values(values))

    def leave(self, start: int, ends: Sequence[End], *, goes_on: bool) -> None:
        """Join the exits of a function or a round with the path that reaches its last statement."""
        remainder = self.undo(start)
        self.join([*ends, *([(remainder, ())] if goes_on else [])])

    def begin_attempt(self) -> list[Assignment]:
        """Return the list of assignments that grows until the attempt is popped."""
        self.attempts.append([])
        return self.attempts[-1]

    def assume_cut(self, attempt: Sequence[Assignment]) -> None:
        """Give each name assigned in the body of a `try` all the values it may have when the body fails."""
        for change in _merge_changes(attempt).values():
            before = change.store.get(change.key)
            values = change.values if before is None else [before, *change.values]
            self.assign(change.store, change.key, choose(values))


def _merge_changes(entries: Iterable[Assignment]) -> Assignments:
    changes: Assignments = {}
    for entry in entries:
        change = changes.setdefault((id(entry.store), entry.key), replace(entry, values=[]))
        change.values += entry.values
    return changes


def join_values(values: Sequence[tuple[JobValue | None, tuple[Arm, ...]]]) -> JobValue:
    """Join the values of several paths; a DataFrame keeps the arms of its path."""
    existing = [(value, arms) for value, arms in values if value is not None]
    if len({id(value) for value, _ in existing}) == 1:
        return existing[0][0]
    return choose(each for value, arms in existing for each in take_arms(value, arms))


def take_arms(value: JobValue, arms: Iterable[Arm]) -> Iterator[JobValue]:
    """Yield the alternatives of a value, with the arms of the path added to DataFrames."""
    taken = frozenset(arms)
    for alternative in alternatives(value):
        if isinstance(alternative, Frame) and taken:
            yield derive((alternative,), "arm", alternative.line, arms=alternative.arms | taken)
        else:
            yield alternative


def exclude_each_other(arms: Iterable[Arm]) -> bool:
    """Return whether these arms contradict each other, so that no run takes all of them."""
    numbers: dict[Hashable, set[object]] = {}
    for arm in arms:
        numbers.setdefault(arm.condition, set()).add(arm.number)
    return any(len(number) > 1 for number in numbers.values())


def select_possible(value: JobValue, taken: Iterable[Arm]) -> JobValue:
    """Drop the alternatives whose arms contradict the arms taken here."""
    if not isinstance(value, OneOf):
        return value
    arms = frozenset(taken)
    possible = [v for v in value.values if not (isinstance(v, Frame) and exclude_each_other(v.arms | arms))]
    return choose(possible) if 0 < len(possible) < len(value.values) else value


def make_arms(test: ast.expr, evaluate: Evaluate) -> tuple[tuple[Arm, ...], tuple[Arm, ...]]:
    """Return the arms of a test, positive first; the same test of the same values gives the same arms."""
    positive, holds = _strip_negation(test)
    text = ast.unparse(positive)
    condition = (text, tuple(_identify_names(positive, evaluate)))
    is_call = isinstance(positive, ast.Call | ast.Name | ast.Attribute)
    existence = _describe_existence_test(positive, evaluate) if is_call else ""
    arms = tuple(
        (Arm(condition, number=number, line=test.lineno, existence=existence),) for number in (holds, not holds)
    )
    match positive:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[ast.Constant() as literal]):
            equal = Arm(("value", ast.unparse(left), condition[1]), number=repr(literal.value), line=test.lineno)
            return (*arms[0], *[equal] * holds), (*arms[1], *[equal] * (not holds))
    return arms[0], arms[1]


def _describe_existence_test(test: ast.expr, evaluate: Evaluate) -> str:
    """Return the call by which a test checks that a table or a path exists, with its arguments; else nothing."""
    if isinstance(test, ast.Call):
        arguments = ", ".join(describe(evaluate(argument)) for argument in test.args)
        description = f"{ast.unparse(test.func)}({arguments})"
    else:
        description = describe(evaluate(test))
    return description if "exist" in description.lower() or "isDeltaTable" in description else ""


def _strip_negation(test: ast.expr) -> tuple[ast.expr, bool]:
    """Return a test without its negation, and whether it holds if the whole test holds."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner, holds = _strip_negation(operand)
            return inner, not holds
        case ast.Compare(left=left, ops=[ast.NotEq() | ast.IsNot() | ast.NotIn() as operator], comparators=others):
            opposite = {ast.NotEq: ast.Eq, ast.IsNot: ast.Is, ast.NotIn: ast.In}[type(operator)]()
            return ast.copy_location(ast.Compare(left=left, ops=[opposite], comparators=others), test), False
        case _:
            return test, True


def _identify_names(test: ast.expr, evaluate: Evaluate) -> Iterator[Hashable]:
    """Yield the identity of each name and attribute in a test."""
    if isinstance(test, ast.Name | ast.Attribute):
        yield _identify(evaluate(test))
        return
    for node in ast.iter_child_nodes(test):
        if isinstance(node, ast.expr):
            yield from _identify_names(node, evaluate)


def _identify(value: JobValue) -> Hashable:
    match value:
        case Constant():
            return ("constant", repr(value.value))
        case Imported():
            return ("imported", value.path)
        case Method():
            return (_identify(value.receiver), value.name)
        case _:
            return _Identity(value)


@dataclass(frozen=True)
class _Identity:
    """A value that is equal to itself alone."""

    value: JobValue

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def decide(test: JobValue) -> bool | None:
    """Return whether a test holds; None if that is not known."""
    match test:
        case Constant():
            return bool(test.value)
        case Listing() | Table():
            return True if test.items else False if test.is_complete else None
        case Frame() | Session() | JobFunction() | JobClass() | Instance():
            return True
        case _:
            return None
