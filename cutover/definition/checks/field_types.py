"""Check of a definition's values against the type annotations of their fields, before any value is used."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from cutover.definition.checks.measures import reject

_MAX_SHOWN_LENGTH = 80  # characters of an invalid value in a message


def check_field_types(part: object, prefix: str = "") -> None:
    """Check each field of a dataclass, and recursively those of the dataclasses in it.

    Args:
        part: Definition, or a part of one.
        prefix: Prefix of field names in messages.

    Raises:
        DefinitionError: The message names the first field whose value does not match its annotation.
    """
    hints = get_type_hints(type(part))
    for field in fields(part):  # type: ignore[arg-type]
        value, name = getattr(part, field.name), f"{prefix}{field.name}"
        if not _fits(value, hints[field.name]):
            reject(name, _describe_hint(hints[field.name]), repr(value)[:_MAX_SHOWN_LENGTH])
        for inner_name, inner in _list_parts(name, value):
            if is_dataclass(inner) and not isinstance(inner, type):
                check_field_types(inner, f"{inner_name}.")


def _list_parts(name: str, value: object) -> list[tuple[str, object]]:
    if isinstance(value, Mapping):
        return [(f"{name}.{key}", inner) for key, inner in value.items()]
    if isinstance(value, list | tuple):
        return [(f"{name}[{number}]", inner) for number, inner in enumerate(value)]
    return [(name, value)]


def _fits(value: object, hint: Any) -> bool:
    """Return whether a value matches a type annotation."""
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
    return _is_instance(value, origin or hint)


def _is_instance(value: object, kind: object) -> bool:
    """Return whether a value is an instance of a class; an int is also a float, a bool is neither."""
    if kind is Any or not isinstance(kind, type):
        return True
    if isinstance(value, bool):
        return kind in (bool, object)
    return isinstance(value, (int, float) if kind is float else kind)


def _describe_hint(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _join_choices(arguments)
    if origin in (Union, UnionType):
        return _join_choices(list(map(_describe_hint, arguments)))
    if origin is tuple:
        return f"a tuple of {_describe_hint(arguments[0])}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"a mapping of {_describe_hint(arguments[0])} to {_describe_hint(arguments[1])}"
    if is_dataclass(hint):
        return f"{hint.__name__}(...)"  # type: ignore[union-attr]  # a class
    words = {str: "text", int: "a whole number", float: "a number", NoneType: "None", bool: "True or False"}
    return words.get(hint, getattr(hint, "__name__", str(hint)))


def _join_choices(choices: Sequence[str]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}" if len(choices) > 1 else choices[0]
