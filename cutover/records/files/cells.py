"""Conversion of CSV cells to JSON values, and descriptions of invalid values for messages."""

import json
import re
from json.encoder import encode_basestring
from typing import Any

from cutover.definition.model.times import name_rejected_time
from cutover.definition.model.topic import TimeFormat, parse_decimal_type
from cutover.output.cells import visible
from cutover.records.parsing import limits
from cutover.records.reference.values import JsonNumber, JsonObject

NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
BOOLEANS = {"true": True, "false": False, "t": True, "f": False}
MAX_SHOWN = 40  # characters of a value in a message
MAX_NAME_SHOWN = 63

JsonValue = bool | str | JsonNumber | None


def convert_cell(cell: str, kind: str, time_format: TimeFormat) -> JsonValue:
    """Convert a cell to the JSON value that is sent for a column of this type.

    Args:
        cell: Text of the cell; an empty one is null.
        kind: Type of the column in the schema.
        time_format: Format of timestamps in the definition.

    Returns:
        The JSON value; a string if the cell is not a valid literal of the type, which the parser then rejects.
    """
    if not cell:
        return None
    if kind in {"string", "date"} or (kind == "timestamp" and time_format == "iso"):
        return cell
    if kind == "boolean":
        return BOOLEANS.get(cell.lower(), cell)
    return JsonNumber(cell) if len(cell) <= limits.MAX_NUMBER and NUMBER.fullmatch(cell) else cell


def encode_value(value: JsonValue) -> str:
    """Encode a value as JSON; numbers keep their text from the file."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return encode_basestring(value)
    return value.text if isinstance(value, JsonNumber) else json.dumps(value)


def describe_invalid_value(value: Any, kind: str, time_format: TimeFormat) -> str:
    """Describe a value that is invalid for a type: `expected int, got "7.5"`.

    Args:
        value: Value from the JSON: None, bool, float, str, JsonNumber, JsonObject or list.
        kind: Type for which it is invalid.
        time_format: Format of timestamps in the definition.
    """
    if kind == "timestamp":
        expected = f"a time in {time_format}"
        form = None
        if isinstance(value, str | JsonNumber):
            is_number = isinstance(value, JsonNumber)
            form = name_rejected_time(value.text if isinstance(value, JsonNumber) else value, is_number=is_number)
        reason = form or _describe_time_format(value, time_format)
        return f"expected {expected}, got {format_value(value)} ({reason})"
    has_exponent = isinstance(value, JsonNumber) and "e" in value.text.lower()
    note = " (a decimal is written without an exponent)" if has_exponent and parse_decimal_type(kind) else ""
    return f"expected {kind}, got {format_value(value)}{note}"


def _describe_time_format(value: Any, time_format: TimeFormat) -> str:
    if time_format == "iso":
        return "such as 2026-03-02T00:00:00Z"
    if isinstance(value, JsonNumber) and value.text.lstrip("-").isdigit():
        return "only years 1000 to 8999 are accepted"
    return "a whole number without an exponent"


def format_value(value: Any) -> str:
    """Format a value as JSON, truncated to one line of a message."""
    if isinstance(value, JsonObject):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, JsonNumber):
        return _shorten(value.text)
    return _shorten(json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode())


def format_name(name: str) -> str:
    """Format a name from a file for a message: control characters are escaped, long names truncated."""
    return visible(name).encode("utf-8", "backslashreplace").decode()[:MAX_NAME_SHOWN]


def _shorten(text: str) -> str:
    return visible(text) if len(text) <= MAX_SHOWN else f"{visible(text[:MAX_SHOWN])}..."
