"""Frozen dataclass trees to plain JSON and back; the report's one wire form."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Any, TypeVar

from cutover import json_text
from cutover.errors import LakeError

Scalar = str | int | float | bool | None
"""Value of a key or a measure in JSON."""

T = TypeVar("T")

_PLAIN = frozenset({str, int, bool, type(None)})


def scalar(value: object) -> Scalar:
    """Convert a table's value to a JSON scalar.

    Integral decimals become integers, others a float if exact, otherwise their text; timestamps become ISO text in
    UTC; a float that JSON does not support (NaN, infinity) becomes its text; a list becomes JSON text, in one cell.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, datetime):
        return _time(value)
    if isinstance(value, list | dict):
        return json.dumps(encode_tree(value), ensure_ascii=False)
    return value.isoformat() if isinstance(value, date) else str(value)


def _time(value: datetime) -> str:
    try:
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError):  # an infinite time, which the engine returns as the minimum or maximum
        return value.isoformat()


def _decimal(value: Decimal) -> Scalar:
    if value == value.to_integral_value():
        return int(value)
    return float(value) if Decimal(repr(float(value))) == value else str(value)


def encode_tree(value: object) -> Any:
    """Encode a tree of dataclasses as plain lists, dicts and scalars."""
    kind: type = type(value)
    if kind in _PLAIN:  # most values of a report
        return value
    field_names = _list_field_names(kind)
    if field_names is not None:
        return {name: encode_tree(getattr(value, name)) for name in field_names}
    if isinstance(value, Mapping):
        return {str(key): encode_tree(item) for key, item in value.items()}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [encode_tree(item) for item in value]
    return scalar(value)


@cache
def _list_field_names(kind: type) -> tuple[str, ...] | None:
    """List the fields of a dataclass; None for any other type."""
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else None


def decode_tree(kind: type[T], raw: object) -> T:
    """Decode a dataclass from the output of `encode_tree`; unknown fields are ignored.

    Raises:
        LakeError: A field is missing or has the wrong shape.
    """
    try:
        return json_text.parse_dataclass(kind, json.dumps(raw))
    except ValueError as error:
        msg = f"Stored {kind.__name__}: expected the shape that this version writes, got another: {error}."
        raise LakeError(msg) from error
