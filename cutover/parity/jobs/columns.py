"""Column expressions of a job, made from other values."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from cutover.parity.jobs.values import (
    Comparison,
    Constant,
    Frame,
    JobColumn,
    JobValue,
    Method,
    OneOf,
    UnknownValue,
    describe_value,
    get_taint,
    get_text,
    list_alternatives,
)

JOIN_TYPES: Mapping[str, str] = {"": "full", "cross": "inner", "leftsemi": "semi", "leftanti": "anti"}


def read_join_type(text: str) -> str:
    """Return the type of a join by one of Spark's names for it."""
    name = re.sub(r"[_ ]", "", text.lower()).removesuffix("outer")
    return JOIN_TYPES.get(name, name)


def make_column(value: JobValue) -> JobColumn:
    """Make the column of an argument: a string is a column name, another literal reads no column."""
    text = get_text(value)
    if text is not None:
        return JobColumn(names=frozenset({text.rpartition(".")[2]}), is_plain=True)
    if isinstance(value, JobColumn):
        return value
    if isinstance(value, OneOf):
        parts = merge_columns(map(make_column, list_alternatives(value)))
        return replace(parts, names=frozenset(), comparisons=(), varies=True)
    if isinstance(value, Method) and isinstance(value.receiver, Frame):
        return JobColumn(names=frozenset({value.name}), is_plain=True)
    description = describe_value(value) if isinstance(value, UnknownValue | Method) else "?"
    names = frozenset[str]() if "?" in description else frozenset({description})
    is_fixed = isinstance(value, Constant) or (isinstance(value, UnknownValue) and value.is_fixed)
    return JobColumn(names=names, is_plain=bool(names), varies=not is_fixed, taint=get_taint(value))


def merge_columns(columns: Iterable[JobColumn], comparisons: Iterable[Comparison] = ()) -> JobColumn:
    """Combine columns into one expression with the names, comparisons and taint of all."""
    parts = tuple(columns)
    return JobColumn(
        names=frozenset(name for part in parts for name in part.names),
        comparisons=(*comparisons, *(pair for part in parts for pair in part.comparisons)),
        varies=any(part.varies for part in parts),
        taint=frozenset(taint for part in parts for taint in part.taint),
        functions=frozenset(name for part in parts for name in part.functions),
    )
