"""Texts and column expressions that a job assembles: known parts, and unknown ones in braces."""

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


def get_sql_text(value: JobValue) -> str | None:
    """Return a SQL text, with its unknown parts marked as parameters; None for a value without a text."""
    if isinstance(value, UnknownValue) and value.is_template and "?" not in value.text:
        return mark_parameters(value.text)
    return get_text(value)


def join_texts(parts: list[JobValue]) -> JobValue:
    """Concatenate parts into a text with the taint of all."""
    if all(isinstance(part, Constant) for part in parts):
        return Constant("".join(str(part.value) for part in parts if isinstance(part, Constant)))
    taint = frozenset(source for part in parts for source in get_taint(part))
    return UnknownValue("".join(_mark_unknown(part) for part in parts), taint, is_template=True)


def _mark_unknown(part: JobValue) -> str:
    """Return the text of a part, in braces if it is unknown."""
    description = describe_value(part)
    is_text = isinstance(part, Constant) or (isinstance(part, UnknownValue) and part.is_template)
    is_marked = is_text or not description.strip() or description[0] + description[-1] == "{}"
    return description if is_marked else f"{{{description}}}"


def fill_template(pieces: list[str], values: list[JobValue]) -> JobValue:
    """Fill the gaps between a template's pieces with values."""
    parts: list[JobValue] = [Constant(pieces[0])]
    for index, piece in enumerate(pieces[1:]):
        parts += [values[index] if index < len(values) else UnknownValue(), Constant(piece)]
    return join_texts(parts)


def mark_parameters(text: str) -> str:
    """Replace each part in braces by an identifier that marks a parameter."""
    identifier_text, depth = "", 0
    for letter in text:
        if letter == "{":
            identifier_text += "__param_" if depth == 0 else "_"
            depth += 1
        elif letter == "}":
            depth -= 1
        else:
            identifier_text += letter if depth == 0 or letter.isalnum() else "_"
    return identifier_text
