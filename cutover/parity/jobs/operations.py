"""Operators of a job over evaluated operands: columns, texts, lists, dicts and constants."""

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from cutover.parity.jobs.paths import decide_test
from cutover.parity.jobs.texts import fill_template, join_texts, make_column, merge_columns
from cutover.parity.jobs.values import (
    Comparison,
    Constant,
    DictValue,
    Frame,
    JobColumn,
    JobValue,
    ListValue,
    Method,
    UnknownValue,
    get_text,
    merge_alternatives,
    override,
)

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
