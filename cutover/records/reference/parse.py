"""Parser of one record in plain Python, with the rules of `cutover.records.parsing.limits`.

It also validates records before they are sent (`cutover produce`) and infers the columns of a draft (`cutover init`).
Spark's parser is tested against it.
"""

import json
import math
import re
import sys
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from functools import cache
from typing import Any, NoReturn

from cutover.definition.model.times import EPOCH_FORMATS, convert_epoch_time, parse_text_time
from cutover.definition.model.topic import Field, Topic, list_fields, parse_decimal_type
from cutover.records.classes import Reason
from cutover.records.parsing import limits
from cutover.records.reference.from_json import parse_job_value
from cutover.records.reference.values import (
    AFTER_LAST_DATE,
    EXACT,
    FIRST_DATE,
    RANGES,
    REASONS,
    BeyondLimitsError,
    InvalidField,
    InvalidValueError,
    JsonNumber,
    JsonObject,
    ParsedRecord,
    has_long_number,
)

DIGITS = 38
_UNPAIRED_SURROGATE = re.compile("[\ud800-\udfff]")

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_MAX_SHALLOW_BRACKETS = 400  # opening brackets that cannot exceed Python's recursion limit at any nesting


def parse_value(value: Any, kind: str, time_format: str) -> Any:
    """Convert a JSON value to its type; None for null.

    Args:
        value: Parsed JSON: None, bool, str, JsonNumber, JsonObject or list.
        kind: A type of the schema.
        time_format: Format of timestamps.

    Returns:
        bool, int, float, Decimal, str or date; a timestamp in microseconds since 1970.

    Raises:
        InvalidValueError: The value is invalid for the type.
    """
    if value is None:
        return None
    if kind in _PARSERS:
        return _PARSERS[kind](value)
    if kind == "timestamp":
        if time_format in EPOCH_FORMATS:
            return _check_range(convert_epoch_time(_parse_whole(value, "bigint"), time_format))
        return _parse_text_time(_parse_text(value), time_format)
    return _parse_decimal(value, kind)


def check_json_type(value: Any, kind: str, time_format: str) -> None:
    """Check the JSON type of a value that is overridden by a later member of the same name.

    Spark's parser rejects such values of a wrong JSON type for booleans and for numbers other than decimals; for the
    other types it checks only the last value.

    Raises:
        InvalidValueError: The JSON type is wrong.
    """
    if value is None or kind in {"string", "date"} or parse_decimal_type(kind) is not None:
        return
    if kind == "timestamp":
        if time_format in EPOCH_FORMATS:
            _parse_whole(value, "bigint")
    elif kind == "double":
        if not isinstance(value, JsonNumber):
            raise InvalidValueError
    else:
        _PARSERS[kind](value)


def _parse_boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidValueError
    return value


def _parse_text(value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidValueError
    if not value.isascii() and _UNPAIRED_SURROGATE.search(value):
        raise InvalidValueError
    return value


def _parse_whole(value: Any, kind: str) -> int:
    if not isinstance(value, JsonNumber) or not value.is_whole:
        raise InvalidValueError
    number = int(value.text)
    if not -RANGES[kind] <= number < RANGES[kind]:
        raise InvalidValueError
    return number


def _parse_double(value: Any) -> float:
    if not isinstance(value, JsonNumber) or not math.isfinite(float(value.text)):
        raise InvalidValueError
    return float(value.text) + 0.0  # minus zero is zero


def _parse_decimal(value: Any, kind: str) -> Decimal:
    if not isinstance(value, JsonNumber) or "e" in value.text.lower():
        raise InvalidValueError
    precision, scale = parse_decimal_type(kind) or (0, 0)
    number = Decimal(value.text)
    if len(number.as_tuple().digits) > DIGITS or -int(number.as_tuple().exponent) > DIGITS:
        raise InvalidValueError
    if not _compile_decimal(precision, scale).fullmatch(value.text):
        raise InvalidValueError
    return EXACT.add(number.quantize(Decimal(1).scaleb(-scale), context=EXACT), Decimal(0))  # minus zero is zero


@cache
def _compile_decimal(precision: int, scale: int) -> re.Pattern[str]:
    return re.compile(limits.decimal_pattern(precision, scale))


def _check_range(micros: int) -> int:
    if not limits.MIN_MICROS <= micros <= limits.MAX_MICROS:
        raise InvalidValueError(has_right_type=True)
    return micros


def _parse_text_time(text: str, time_format: str) -> int:
    try:
        return parse_text_time(text, time_format)
    except ValueError:
        raise InvalidValueError(has_right_type=True) from None


def _parse_date(value: Any) -> date:
    text = _parse_text(value)
    try:
        day = date.fromisoformat(text) if re.fullmatch(limits.ISO_DATE, text) else None
    except ValueError:
        day = None
    if day is None or not FIRST_DATE <= day < AFTER_LAST_DATE:
        raise InvalidValueError
    return day


_PARSERS: dict[str, Callable[[Any], Any]] = {
    "boolean": _parse_boolean,
    "int": lambda value: _parse_whole(value, "int"),
    "bigint": lambda value: _parse_whole(value, "bigint"),
    "double": _parse_double,
    "string": _parse_text,
    "date": _parse_date,
}


def parse_record(value: bytes | None, topic: Topic) -> ParsedRecord:
    """Parse the typed fields of one record, or find the first reason that it is malformed."""
    reason = find_value_defect(value, topic)
    if reason is not None or value is None:
        return ParsedRecord(reason=reason)
    if topic.parse == "from_json":
        return parse_job_value(value, topic)
    try:
        document = parse_object(value.decode("utf-8"))
    except UnicodeDecodeError:
        return ParsedRecord(reason=Reason.UTF8)
    except (ValueError, RecursionError):
        return ParsedRecord(reason=Reason.JSON)
    return parse_fields(document, topic)


def find_value_defect(value: bytes | None, topic: Topic) -> Reason | None:
    """Return the reason that a value is malformed regardless of its content, by its size; None if there is none."""
    if value is None:
        return Reason.NULL_VALUE
    if not value:
        return Reason.EMPTY
    return Reason.TOO_LARGE if len(value) > topic.max_value_bytes else None


def parse_object(text: str, *, within_limits: bool = True) -> JsonObject:
    """Parse a text that is exactly one JSON object.

    Args:
        text: The whole record.
        within_limits: Enforce the limits. If False, `NaN` is parsed as a float and numbers and names may have any
            length, so that the caller can describe the content of an invalid record.

    Raises:
        BeyondLimitsError: The text exceeds the limits.
        ValueError: The text is not exactly one JSON object.
        RecursionError: Without limits: the nesting is too deep for Python.
    """
    decoder = _STRICT if within_limits else _LENIENT
    if text.count("[") + text.count("{") <= _MAX_SHALLOW_BRACKETS:
        return _expect_object(decoder.decode(text))
    if within_limits and _measure_depth(text) > limits.MAX_DEPTH:
        msg = f"more than {limits.MAX_DEPTH:,} nested arrays and objects"
        raise BeyondLimitsError(msg)
    recursion_limit = sys.getrecursionlimit()
    sys.setrecursionlimit(recursion_limit + 2 * limits.MAX_DEPTH)
    try:
        return _expect_object(decoder.decode(text))
    finally:
        sys.setrecursionlimit(recursion_limit)


def _expect_object(document: object) -> JsonObject:
    if not isinstance(document, JsonObject):
        kinds = {list: "an array", str: "a string", JsonNumber: "a number", bool: "a boolean"}
        msg = f"{kinds.get(type(document), 'null')}, not an object"
        raise ValueError(msg)  # noqa: TRY004 -- one kind of failure for all that is not JSON
    return document


def _measure_depth(text: str) -> int:
    """Measure how deep brackets nest outside of strings; the result is arbitrary if the text is not JSON."""
    depth = deepest = 0
    for mark in re.findall(r"[\[{\]}]", _STRING.sub("", text)):
        depth += 1 if mark in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _make_limited_object(members: list[tuple[str, Any]]) -> JsonObject:
    for name, _ in members:
        if len(name) > limits.MAX_NAME:
            msg = f"a name of more than {limits.MAX_NAME:,} characters"
            raise BeyondLimitsError(msg)
    return JsonObject(tuple(members))


def _make_limited_number(text: str) -> JsonNumber:
    if len(text) > limits.MAX_NUMBER and has_long_number(text):
        msg = f"a number of more than {limits.MAX_NUMBER:,} digits"
        raise BeyondLimitsError(msg)
    return JsonNumber(text)


def _reject_constant(text: str) -> NoReturn:
    msg = f"{text}, which is not valid JSON"
    raise BeyondLimitsError(msg)


def _make_decoder(
    pairs: Callable[[list[tuple[str, Any]]], JsonObject],
    number: Callable[[str], JsonNumber],
    constant: Callable[[str], Any],
) -> json.JSONDecoder:
    return json.JSONDecoder(object_pairs_hook=pairs, parse_int=number, parse_float=number, parse_constant=constant)


_STRICT = _make_decoder(_make_limited_object, _make_limited_number, _reject_constant)
_LENIENT = _make_decoder(lambda members: JsonObject(tuple(members)), JsonNumber, float)


def parse_fields(document: JsonObject, topic: Topic) -> ParsedRecord:
    """Parse the typed fields of a JSON object, and collect all invalid fields and the first reason."""
    schema = {item.name: item for item in list_fields(topic)}
    values: dict[str, Any] = dict.fromkeys(schema)
    present = dict(document.members)  # the last member with a name wins
    invalid_fields: dict[str, InvalidField] = {}
    if len(present) < len(document.members):
        _check_earlier_values(document, schema, topic, invalid_fields)
    for name, value in present.items():
        if name in schema and value is not None and name not in invalid_fields:
            try:
                values[name] = parse_value(value, schema[name].type, topic.time_format)
            except InvalidValueError as error:
                is_invalid_time = name == topic.event_time and error.has_right_type
                reason = Reason.EVENT_TIME if is_invalid_time else Reason.TYPE
                invalid_fields[name] = _make_invalid_field(schema[name], reason, value)
    for name, item in schema.items():
        if values[name] is None and name not in invalid_fields and (not item.nullable or name == topic.event_time):
            invalid_fields[name] = _make_invalid_field(
                item, Reason.EVENT_TIME if item.nullable else Reason.MISSING, None
            )
    return ParsedRecord(
        reason=min((invalid.reason for invalid in invalid_fields.values()), key=REASONS.index, default=None),
        values=values,
        unknown=len(set(present) - set(schema)),
        invalid_fields=tuple(invalid_fields[name] for name in schema if name in invalid_fields),
    )


def _check_earlier_values(
    document: JsonObject, schema: dict[str, Field], topic: Topic, invalid_fields: dict[str, InvalidField]
) -> None:
    for name, value in document.members:
        if name in schema and name not in invalid_fields:
            try:
                check_json_type(value, schema[name].type, topic.time_format)
            except InvalidValueError:
                invalid_fields[name] = _make_invalid_field(schema[name], Reason.TYPE, value)


def _make_invalid_field(item: Field, reason: Reason, value: Any) -> InvalidField:
    return InvalidField(name=item.name, type=item.type, reason=reason, value=value)
