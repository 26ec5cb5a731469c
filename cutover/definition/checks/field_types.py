"""What each field of a definition is annotated with, held against what it was given: before anything reads a value."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from cutover.definition.checks.measures import reject

_SHOWN = 80  # characters of what was given


def check_field_types(argument: object, place: str = "") -> None:
    """Check each field of a dataclass, and those of the dataclasses in it.

    Args:
        argument: A definition, or a part of one.
        place: How messages name the part.

    Raises:
        DefinitionError: The first field that holds something else than its annotation says.
    """
    hints = get_type_hints(type(argument))
    for field in fields(argument):  # type: ignore[arg-type]
        value, name = getattr(argument, field.name), f"{place}{field.name}"
        if not _fits(value, hints[field.name]):
            reject(name, _describe(hints[field.name]), repr(value)[:_SHOWN])
        for part, inner in _list_parts(name, value):
            if is_dataclass(inner) and not isinstance(inner, type):
                check_field_types(inner, f"{part}.")


def _list_parts(name: str, value: object) -> list[tuple[str, object]]:
    if isinstance(value, Mapping):
        return [(f"{name}.{key}", inner) for key, inner in value.items()]
    if isinstance(value, list | tuple):
        return [(f"{name}[{number}]", inner) for number, inner in enumerate(value)]
    return [(name, value)]


def _fits(value: object, hint: Any) -> bool:
    """Return whether a value is what an annotation says."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return isinstance(value, str) and value in arguments
    if origin in (Union, UnionType):
        return any(_fits(value, argument) for argument in arguments)
    if origin is tuple:
        return isinstance(value, list | tuple) and all(_fits(item, arguments[0]) for item in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key, inner = arguments
        return isinstance(value, Mapping) and all(_fits(k, key) and _fits(v, inner) for k, v in value.items())
    return _is_one(value, origin or hint)


def _is_one(value: object, kind: object) -> bool:
    """Return whether a value is of a class: whole numbers are numbers, a truth value is neither."""
    if kind is Any or not isinstance(kind, type):
        return True
    if isinstance(value, bool):
        return kind in (bool, object)
    return isinstance(value, (int, float) if kind is float else kind)


def _describe(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _list_choices(arguments)
    if origin in (Union, UnionType):
        return _list_choices(list(map(_describe, arguments)))
    if origin is tuple:
        return f"a tuple of {_describe(arguments[0])}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"a mapping of {_describe(arguments[0])} to {_describe(arguments[1])}"
    if is_dataclass(hint):
        return f"{hint.__name__}(...)"  # type: ignore[union-attr]  # it is a class
    words = {str: "text", int: "a whole number", float: "a number", NoneType: "None", bool: "True or False"}
    return words.get(hint, getattr(hint, "__name__", str(hint)))


def _list_choices(choices: Sequence[str]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}" if len(choices) > 1 else choices[0]
