"""Strict conversion of JSON values to the types of a schema, with the rules of `cutover.records.parsing.limits`."""

import math
import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from functools import cache
from typing import Any

from cutover.definition.model.times import EPOCH_FORMATS, convert_epoch_time, parse_text_time
from cutover.definition.model.topic import parse_decimal_type
from cutover.records.parsing import limits
from cutover.records.reference.values import (
    AFTER_LAST_DATE,
    EXACT,
    FIRST_DATE,
    RANGES,
    UNPAIRED_SURROGATE,
    InvalidValueError,
    JsonNumber,
)

DIGITS = 38


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
    if not value.isascii() and UNPAIRED_SURROGATE.search(value):
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
