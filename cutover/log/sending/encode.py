"""From the cells of a CSV file to JSON, typed by the schema."""

import json
import re
from collections.abc import Callable
from json.encoder import encode_basestring

from cutover.definition.model.schema import Field, decimal_parts
from cutover.definition.model.topic import TimeFormat

NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)")
BOOLEANS = {"true": "true", "false": "false", "t": "true", "f": "false"}

Encode = Callable[[str], str | None]
"""From a cell that is not empty to its JSON; None where the cell does not fit the type."""

text: Callable[[str], str] = encode_basestring
"""Return a JSON string."""


def encoder(field: Field, time_format: TimeFormat) -> Encode:
    """Return how a column's cells are written; a cell that does not fit is for the caller to send as text."""
    if field.type in {"int", "bigint"} or (field.type == "timestamp" and time_format != "iso"):
        return _match_whole
    if field.type == "double" or decimal_parts(field.type) is not None:
        return _number
    if field.type == "boolean":
        return _boolean
    return text


def key_text(values: list[object]) -> str:
    """Return a message key: the JSON array of the key columns' values."""
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def _match_whole(cell: str) -> str | None:
    return cell if WHOLE.fullmatch(cell) else None


def _number(cell: str) -> str | None:
    return cell if NUMBER.fullmatch(cell) else None


def _boolean(cell: str) -> str | None:
    return BOOLEANS.get(cell.lower())
