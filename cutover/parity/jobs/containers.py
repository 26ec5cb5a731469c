"""Lists and dicts of a job, whose changes are recorded per path like assignments, and operators over all operands."""

import ast
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from cutover.parity.jobs.paths import AssignmentLog, decide_test
from cutover.parity.jobs.trace import Arguments, fill_template, join_texts, make_column, merge_columns
from cutover.parity.jobs.values import (
    MISSING,
    Comparison,
    Constant,
    DictValue,
    Frame,
    JobColumn,
    JobValue,
    ListValue,
    Method,
    UnknownValue,
    describe_value,
    get_text,
    merge_alternatives,
    override,
)

LIST_METHODS = frozenset(
    {"append", "add", "extend", "update", "insert", "pop", "remove", "discard", "clear", "reverse", "sort", "copy"}
)
"""Methods of lists and sets that are followed."""

READING_METHODS = frozenset({"get", "items", "keys", "values", "copy", "__contains__", "__len__"})
"""Methods that leave a dict unchanged."""


def make_dict(pairs: Iterable[JobValue], *, is_complete: bool = True) -> DictValue:
    """Make a dict from pairs of key and value; an unknown key makes it incomplete."""
    dictionary = DictValue({}, is_complete=is_complete)
    for pair in pairs:
        parts = list(pair.store.values()) if isinstance(pair, ListValue) else []
        key, value = parts if len(parts) == 2 else (UnknownValue(), UnknownValue())  # noqa: PLR2004 -- key and value
        if isinstance(key, Constant):
            dictionary.store[key.value] = override(dictionary.store.get(key.value), value)
        else:
            dictionary.store[describe_value(key)] = value
            dictionary.is_complete = False
    return dictionary


def make_optional(value: JobValue) -> JobValue:
    """Return a value that is present on some paths only."""
    return merge_alternatives([value, MISSING])


def forget_items(log: AssignmentLog, container: ListValue | DictValue) -> None:
    """Record a change that cannot be followed: an item may be gone, and a value of a dict may be another one."""
    for key, value in list(container.store.items()):
        log.assign(container.store, key, make_optional(value) if isinstance(container, ListValue) else UnknownValue())
    if isinstance(container, DictValue):
        container.is_complete = False


def delete_item(log: AssignmentLog, container: JobValue, key: JobValue) -> JobValue:
    """Remove an item of a list or dict and return it."""
    position = key.value if isinstance(key, Constant) else None
    if isinstance(container, DictValue) and isinstance(key, Constant):
        removed = container.store.get(position, MISSING)
        log.assign(container.store, position, MISSING)
        return removed
    if isinstance(container, ListValue) and container.is_exact and isinstance(position, int):
        items = container.items
        if -len(items) <= position < len(items):
            removed = items.pop(position)
            _replace_items(log, container, items)
            return removed
    if isinstance(container, ListValue | DictValue):
        values = [*container.store.values(), *([] if container.is_complete else [UnknownValue()])]
        forget_items(log, container)
        return merge_alternatives(values)
    return UnknownValue()


def set_item(log: AssignmentLog, container: JobValue, key: JobValue, value: JobValue) -> None:
    """Set an item of a list or dict."""
    position = key.value if isinstance(key, Constant) else None
    if isinstance(container, DictValue) and isinstance(key, Constant):
        log.assign(container.store, position, value)
    elif isinstance(container, DictValue):
        container.is_complete = False
    elif isinstance(container, ListValue):
        size = len(container.items)
        if container.is_exact and isinstance(position, int) and -size <= position < size:
            items = container.items
            items[position] = value
            _replace_items(log, container, items)
        else:
            forget_items(log, container)
            log.assign(container.store, len(container.store), make_optional(value))


def _replace_items(log: AssignmentLog, container: ListValue, items: list[JobValue]) -> None:
    for position in range(max(len(container.store), len(items))):
        log.assign(container.store, position, items[position] if position < len(items) else MISSING)


def call_on_list(log: AssignmentLog, container: ListValue, name: str, arguments: Arguments) -> JobValue:
    """Evaluate one of `LIST_METHODS`."""
    argument = arguments.get(0)
    if name in {"append", "add", "insert", "extend", "update"} and argument is not None:
        _add_items(log, container, name, arguments)
    elif name == "pop":
        return delete_item(log, container, Constant(-1) if argument is None else argument)
    elif name in {"remove", "discard"} and argument is not None:
        _remove_value(log, container, argument)
    elif name == "clear":
        _replace_items(log, container, [])
    elif name == "reverse" and container.is_exact:
        _replace_items(log, container, container.items[::-1])
    elif name == "copy":
        return ListValue(container.items, is_complete=container.is_complete)
    return Constant(None)


def _add_items(log: AssignmentLog, container: ListValue, name: str, arguments: Arguments) -> None:
    value = arguments.positional[-1]
    items = [value]
    if name in {"extend", "update"}:
        keys = [Constant(key) for key in value.items] if isinstance(value, DictValue) else []
        items = value.items if isinstance(value, ListValue) else list(keys)
        container.is_complete = container.is_complete and isinstance(value, ListValue | DictValue)
    position = arguments.get(0) if name == "insert" else None
    if container.is_exact and isinstance(position, Constant) and isinstance(position.value, int):
        changed = container.items
        changed.insert(position.value, value)
        _replace_items(log, container, changed)
        return
    for item in items:
        log.assign(container.store, len(container.store), item)


def _remove_value(log: AssignmentLog, container: ListValue, value: JobValue) -> None:
    """Remove the first item that equals a value."""
    items = container.items
    constants = [item.value for item in items if isinstance(item, Constant)]
    if not container.is_exact or len(constants) < len(items) or not isinstance(value, Constant):
        forget_items(log, container)
    elif value.value in constants:
        del items[constants.index(value.value)]
        _replace_items(log, container, items)


def call_on_dict(log: AssignmentLog, dictionary: DictValue, name: str, arguments: Arguments) -> JobValue:
    """Evaluate a method of a dict."""
    key = arguments.get(0)
    if name in {"items", "values", "keys"}:
        rows = [
            ListValue([Constant(key), value]) if name == "items" else value if name == "values" else Constant(key)
            for key, value in dictionary.items.items()
        ]
        return ListValue(rows, is_complete=dictionary.is_complete)
    if name in {"get", "pop", "setdefault"} and isinstance(key, Constant):
        default = arguments.get(1) or (Constant(None) if dictionary.is_complete or name != "get" else UnknownValue())
        value = override(default, dictionary.store.get(key.value, MISSING))
        if name != "get":
            log.assign(dictionary.store, key.value, MISSING if name == "pop" else value)
        return value
    if name == "copy":
        return DictValue(dictionary.items, is_complete=dictionary.is_complete)
    if name == "update":
        update_dict(log, dictionary, arguments)
    elif name == "clear":
        for name_set in list(dictionary.store):
            log.assign(dictionary.store, name_set, MISSING)
    elif name not in READING_METHODS:
        forget_items(log, dictionary)
    return Constant(None) if name in {"update", "clear"} else UnknownValue(name)


def update_dict(log: AssignmentLog, dictionary: DictValue, arguments: Arguments) -> None:
    """Set the items of other dicts, of lists of pairs and of keywords."""
    dictionaries = [
        make_dict(value.items, is_complete=value.is_complete) if isinstance(value, ListValue) else value
        for value in arguments.positional
    ]
    known = [value for value in dictionaries if isinstance(value, DictValue)]
    pairs = [*(pair for other in known for pair in other.items.items()), *arguments.keywords.items()]
    for key, value in pairs:
        log.assign(dictionary.store, key, override(dictionary.store.get(key), value))
    is_known = arguments.is_complete and len(known) == len(dictionaries) and all(other.is_complete for other in known)
    dictionary.is_complete = dictionary.is_complete and is_known


def filter_items(container: ListValue, tests: Iterable[bool | None]) -> ListValue:
    """Return the items for which a test holds; those for which it may hold are optional."""
    pairs = [(item, test) for item, test in zip(container.items, tests, strict=False) if test is not False]
    items = [item if test else make_optional(item) for item, test in pairs]
    return ListValue(items, is_complete=container.is_complete)


COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], object]] = {
    ast.Eq: operator.eq,
    ast.Is: operator.eq,
    ast.NotEq: operator.ne,
    ast.IsNot: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, text: item in text,
    ast.NotIn: lambda item, text: item not in text,
}
"""Comparisons of constants."""

Operation = ast.BinOp | ast.BoolOp | ast.UnaryOp | ast.Compare


def apply_operator(node: Operation, parts: list[JobValue]) -> JobValue:  # noqa: PLR0911 -- one return for each kind
    """Evaluate an operation over values."""
    if any(isinstance(part, JobColumn) or _is_column_of_frame(part) for part in parts):
        columns = [_make_operand(part) for part in parts]
        merged = merge_columns(columns, list(_list_comparisons(node, columns)))
        is_sum = (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Add | ast.Sub)
            and all(column.names for column in columns)
        )
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return replace(merged, comparisons=(), varies=all(column.varies for column in columns))  # one need not hold
        return replace(merged, functions=merged.functions | {"+"}) if is_sum else merged
    if isinstance(node, ast.Compare | ast.BoolOp) and (result := _decide_operation(node, parts)) is not None:
        return result
    is_sum = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
    if is_sum and all(isinstance(part, ListValue) for part in parts):
        return ListValue([item for part in parts if isinstance(part, ListValue) for item in part.items])
    if is_sum and all(isinstance(part, Constant) and isinstance(part.value, str) for part in parts):
        return join_texts(parts)
    if (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.BitOr)
        and any(isinstance(part, DictValue) for part in parts)
    ):
        return _merge_dicts(parts)
    if isinstance(node, ast.BoolOp):
        return merge_alternatives(parts)  # `a or b` is one of them
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and get_text(parts[0]) is not None:
        values = parts[1].items if isinstance(parts[1], ListValue) else parts[1:]
        return fill_template(re.split(r"%[sdif]", get_text(parts[0]) or ""), list(values))
    if all(isinstance(part, Constant) for part in parts):
        return _compute(node, [part.value for part in parts if isinstance(part, Constant)])
    return join_texts([UnknownValue(" ") if not is_sum else Constant(""), *parts])


def _list_comparisons(node: Operation, columns: list[JobColumn]) -> Iterator[Comparison]:
    """Yield the columns that a comparison bounds, with the columns that bound them."""
    match node, columns:
        case ast.Compare(ops=[operator]), [left, right]:
            if isinstance(operator, ast.Lt | ast.LtE | ast.Eq):
                yield left.names, right.names
            if isinstance(operator, ast.Gt | ast.GtE | ast.Eq):
                yield right.names, left.names


def _decide_operation(node: ast.Compare | ast.BoolOp, parts: list[JobValue]) -> JobValue | None:
    """Evaluate a comparison, `and` or `or` if its parts are known; else None."""
    match node, parts:
        case ast.BoolOp(), _:
            is_or = isinstance(node.op, ast.Or)
            for part in parts:
                if decide_test(part) is None:
                    return None
                if decide_test(part) is is_or:
                    return part
            return parts[-1]
        case ast.Compare(ops=[ast.In() | ast.NotIn() as operator]), [
            Constant() as item,
            ListValue() | DictValue() as container,
        ]:
            keys = [Constant(key) for key in container.items] if isinstance(container, DictValue) else container.items
            is_known = container.is_exact and all(isinstance(key, Constant) for key in keys)
            values = [key.value for key in keys if isinstance(key, Constant)]
            return Constant((item.value in values) is isinstance(operator, ast.In)) if is_known else None
        case ast.Compare(ops=[ast.Is() | ast.IsNot() as operator]), [value, Constant(value=None)]:
            is_something = not isinstance(value, Constant) and decide_test(value) is not None
            return Constant(isinstance(operator, ast.IsNot)) if is_something else None
        case _:
            return None


def _compute(node: ast.expr, values: list[object]) -> JobValue:
    """Evaluate a simple operation over constants."""
    match node:
        case ast.UnaryOp(op=ast.Not()):
            return Constant(not values[0])
        case ast.UnaryOp(op=ast.USub()) if isinstance(values[0], int | float):
            return Constant(-values[0])
        case ast.Compare(ops=[comparison]) if type(comparison) in COMPARISONS:
            with suppress(TypeError):
                return Constant(COMPARISONS[type(comparison)](*values))
            return UnknownValue(" ".join(map(str, values)))
        case _:
            return UnknownValue(" ".join(map(str, values)))


def _merge_dicts(parts: list[JobValue]) -> DictValue:
    dictionaries = [part for part in parts if isinstance(part, DictValue)]
    items: dict[object, JobValue] = {}
    for dictionary in dictionaries:
        items |= {key: override(items.get(key), value) for key, value in dictionary.items.items()}
    return DictValue(
        items,
        is_complete=len(dictionaries) == len(parts) and all(dictionary.is_complete for dictionary in dictionaries),
    )


def _make_operand(value: JobValue) -> JobColumn:
    """Make the column of an operand; a string operand is a literal, not a column name."""
    if isinstance(value, Constant):
        return JobColumn()
    return make_column(value)


def _is_column_of_frame(value: JobValue) -> bool:
    return isinstance(value, Method) and isinstance(value.receiver, Frame)
