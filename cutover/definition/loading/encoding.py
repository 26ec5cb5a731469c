"""Encoding of definitions as plain data, in which an installation records them, and decoding without their files.

Each encoded object has the name of its class, since some classes have the same fields (`Sum`, `Max`). Only classes
that definitions consist of are ever constructed.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from cutover import definition
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.triggers import Sequence
from cutover.definition.windows.sliding import SlidingWindows
from cutover.errors import DefinitionError

_CLASS, _ITEMS, _LIST = "class", "items", "list"
_EXPORTED = (getattr(definition, name) for name in definition.__all__)
_KINDS = {kind.__name__: kind for kind in (*_EXPORTED, SlidingWindows) if isinstance(kind, type)}
"""Classes by name; `Fixed` and `Sliding` are functions that return `SlidingWindows`."""


def encode_definition(pipeline: Pipeline) -> dict[str, Any]:
    """Encode a definition as values that JSON can represent.

    Raises:
        DefinitionError: An argument of an expectation has a type that JSON cannot represent.
    """
    encoded: dict[str, Any] = _encode(pipeline)
    return encoded


def decode_definition(raw: object) -> Pipeline:
    """Decode a definition that `encode_definition` encoded.

    Raises:
        DefinitionError: The value is not a definition, or a release with other fields wrote it.
    """
    try:
        decoded = _decode(raw)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        actual = f"{type(error).__name__}: {error}"
        msg = f"Recorded definition: expected the classes and fields of this release, got {actual}."
        raise DefinitionError(msg) from error
    if not isinstance(decoded, Pipeline):
        msg = f"Recorded definition: expected a `Pipeline`, got {type(decoded).__name__}."
        raise DefinitionError(msg)
    return decoded


def _encode(value: object) -> Any:
    encoded: Any
    match value:
        case Enum():
            encoded = {_CLASS: type(value).__name__, _ITEMS: value.value}
        case _ if is_dataclass(value) and type(value) is _KINDS.get(type(value).__name__):
            items = {field.name: _encode(getattr(value, field.name)) for field in fields(value)}
            encoded = {_CLASS: type(value).__name__, _ITEMS: items}
        case Mapping():
            encoded = {_ITEMS: [[_encode(name), _encode(item)] for name, item in value.items()]}
        case list():
            encoded = {_LIST: [_encode(item) for item in value]}
        case tuple():
            encoded = [_encode(item) for item in value]
        case Path():
            encoded = str(value)
        case str() | int() | float() | bool() | None:
            encoded = value
        case _:
            msg = f"Recorded definition: expected texts, numbers and collections of them, got {type(value).__name__}."
            raise DefinitionError(msg)
    return encoded


def _decode(raw: Any) -> Any:
    if isinstance(raw, list):
        return tuple(map(_decode, raw))
    if not isinstance(raw, dict):
        return raw
    if _LIST in raw:
        return list(map(_decode, raw[_LIST]))
    if _CLASS in raw:
        return _construct(_KINDS[raw[_CLASS]], raw[_ITEMS])
    return {_decode(name): _decode(item) for name, item in raw[_ITEMS]}


def _construct(kind: type, items: Any) -> Any:
    if issubclass(kind, Enum):
        return kind(items)
    if kind is Sequence:
        return Sequence(*_decode(items["parts"]))
    arguments = {field: _decode(item) for field, item in items.items()}
    if kind is Pipeline and arguments["file"] is not None:
        arguments["file"] = Path(arguments["file"])
    return kind(**arguments)
