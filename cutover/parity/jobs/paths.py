"""Paths through a job: the assignments of each branch of a condition, and the join of branches."""

import ast
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cutover.parity.jobs.values import (
    MISSING,
    Branch,
    Constant,
    DictValue,
    Frame,
    ImportedName,
    Instance,
    ItemStore,
    JobClass,
    JobFunction,
    JobValue,
    ListValue,
    Method,
    OneOf,
    Session,
    derive_frame,
    describe_value,
    expand_alternatives,
    merge_alternatives,
)

ValueStore = dict[Any, JobValue]
"""Mapping that holds assigned values: names of a scope, attributes, items of a dict, or views."""

Evaluate = Callable[[ast.expr], JobValue]


@dataclass(eq=False)
class Assignment:
    """Assignment of a name, attribute or item, with its previous and its new values."""

    store: ValueStore
    key: object
    previous: JobValue | None  # None: it did not exist
    values: list[JobValue]  # assigned values, in order


Assignments = dict[tuple[int, object], Assignment]
PathEnd = tuple[Assignments, tuple[Branch, ...]]
"""Assignments at the end of a path, with the branches that it took."""


@dataclass(eq=False)
class Activation:
    """Active function: the values that it returns, and the position in the assignment log at its start."""

    start: int
    branch_depth: int  # number of branches taken before it
    return_values: list[JobValue] = field(default_factory=list)
    ends: list[PathEnd] = field(default_factory=list)


@dataclass(eq=False)
class Loop:
    """Active loop."""

    start: int
    branch_depth: int  # number of branches taken before it
    round_start: int = 0  # position in the assignment log at the start of the current iteration
    continue_ends: list[PathEnd] = field(default_factory=list)
    break_ends: list[PathEnd] = field(default_factory=list)


@dataclass(eq=False)
class AssignmentLog:
    """Assignments in order, so that one branch can be undone before the next is interpreted."""

    entries: list[Assignment] = field(default_factory=list)
    attempts: list[list[Assignment]] = field(
        default_factory=list
    )  # assignments of each active `try` body, which may be interrupted

    def assign(self, store: ValueStore, key: object, value: JobValue) -> None:
        """Assign a value and record it."""
        change = Assignment(store, key, store.get(key), [value])
        self.entries.append(change)
        for attempt in self.attempts:
            attempt.append(change)
        store[key] = value

    def mark(self) -> int:
        """Return the current position in the log."""
        return len(self.entries)

    def list_changes(self, mark: int) -> Assignments:
        """Merge the assignments since a position into one entry per name."""
        return _merge_changes(self.entries[mark:])

    def undo(self, mark: int) -> Assignments:
        """Undo the assignments since a position and return them merged."""
        changes = self.list_changes(mark)
        del self.entries[mark:]
        for change in changes.values():
            if change.previous is None:
                change.store.pop(change.key, None)
            else:
                change.store[change.key] = change.previous
        return changes

    def join(self, ends: Sequence[PathEnd]) -> None:
        """Assign to each name that any path changed the joined value of all paths."""
        keys = {key: change for changes, _ in ends for key, change in changes.items()}
        for key, change in keys.items():
            previous = MISSING if change.previous is None and isinstance(change.store, ItemStore) else change.previous
            values = [(changes[key].values[-1] if key in changes else previous, branches) for changes, branches in ends]
            self.assign(change.store, change.key, join_values(values))

    def join_exits(self, start: int, ends: Sequence[PathEnd], *, continues: bool) -> None:
        """Join the early exits of a function or an iteration with the path that reaches its last statement."""
        fallthrough = self.undo(start)
        self.join([*ends, *([(fallthrough, ())] if continues else [])])

    def begin_attempt(self) -> list[Assignment]:
        """Return a list that collects assignments until the attempt is popped."""
        self.attempts.append([])
        return self.attempts[-1]

    def assume_interrupted(self, attempt: Sequence[Assignment]) -> None:
        """Assign to each name in the body of a `try` all values that it may have when the body fails."""
        for change in _merge_changes(attempt).values():
            current = change.store.get(change.key, MISSING if isinstance(change.store, ItemStore) else None)
            values = change.values if current is None else [current, *change.values]
            self.assign(change.store, change.key, merge_alternatives(values))


def _merge_changes(entries: Iterable[Assignment]) -> Assignments:
    changes: Assignments = {}
    for entry in entries:
        change = changes.setdefault((id(entry.store), entry.key), replace(entry, values=[]))
        change.values += entry.values
    return changes


def join_values(values: Sequence[tuple[JobValue | None, tuple[Branch, ...]]]) -> JobValue:
    """Join the values of several paths; a DataFrame records the branches of its path."""
    existing = [(value, branches) for value, branches in values if value is not None]
    if len({id(value) for value, _ in existing}) == 1:
        return existing[0][0]
    return merge_alternatives(item for value, branches in existing for item in add_branches(value, branches))


def add_branches(value: JobValue, branches: Iterable[Branch]) -> Iterator[JobValue]:
    """Yield the alternatives of a value, with the branches of the path added to DataFrames."""
    path = frozenset(branches)
    for alternative in expand_alternatives(value):
        if isinstance(alternative, Frame) and path:
            yield derive_frame((alternative,), "branch", alternative.line, branches=alternative.branches | path)
        else:
            yield alternative


def are_contradictory(branches: Iterable[Branch]) -> bool:
    """Return whether branches contradict each other, so that no run takes all of them."""
    numbers: dict[Hashable, set[object]] = {}
    for branch in branches:
        numbers.setdefault(branch.condition, set()).add(branch.number)
    return any(len(number) > 1 for number in numbers.values())


def select_reachable(value: JobValue, taken_branches: Iterable[Branch]) -> JobValue:
    """Drop the alternatives whose branches contradict the branches taken so far."""
    if not isinstance(value, OneOf):
        return value
    branches = frozenset(taken_branches)
    possible = [v for v in value.values if not (isinstance(v, Frame) and are_contradictory(v.branches | branches))]
    return merge_alternatives(possible) if 0 < len(possible) < len(value.values) else value


def make_branches(test: ast.expr, evaluate: Evaluate) -> tuple[tuple[Branch, ...], tuple[Branch, ...]]:
    """Make the branches of a test, positive first; equal tests of the same values make equal branches."""
    positive, holds = _strip_negation(test)
    text = ast.unparse(positive)
    condition = (text, tuple(_identify_names(positive, evaluate)))
    is_call = isinstance(positive, ast.Call | ast.Name | ast.Attribute)
    existence = _describe_existence_test(positive, evaluate) if is_call else ""
    branches = tuple(
        (Branch(condition, number=number, line=test.lineno, existence=existence),) for number in (holds, not holds)
    )
    match positive:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[ast.Constant() as literal]):
            equal = Branch(("value", ast.unparse(left), condition[1]), number=repr(literal.value), line=test.lineno)
            return (*branches[0], *[equal] * holds), (*branches[1], *[equal] * (not holds))
    return branches[0], branches[1]


def _describe_existence_test(test: ast.expr, evaluate: Evaluate) -> str:
    """Return the call by which a test checks that a table or path exists, with arguments; empty for other tests."""
    if isinstance(test, ast.Call):
        arguments = ", ".join(describe_value(evaluate(argument)) for argument in test.args)
        description = f"{ast.unparse(test.func)}({arguments})"
    else:
        description = describe_value(evaluate(test))
    return description if "exist" in description.lower() or "isDeltaTable" in description else ""


def _strip_negation(test: ast.expr) -> tuple[ast.expr, bool]:
    """Return a test without negation, and its result when the original test holds."""
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
    """Yield a hashable identity of each name and attribute in a test."""
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
        case ImportedName():
            return ("imported", value.path)
        case Method():
            return (_identify(value.receiver), value.name)
        case _:
            return _Identity(value)


@dataclass(frozen=True)
class _Identity:
    """Wrapper that makes a value equal only to itself."""

    value: JobValue

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def decide_test(test: JobValue) -> bool | None:
    """Decide whether a test holds; None if unknown."""
    match test:
        case Constant():
            return bool(test.value)
        case ListValue() | DictValue():
            return test.has_items()
        case Frame() | Session() | JobFunction() | JobClass() | Instance():
            return True
        case _:
            return None
