"""Columns that Spark's `from_json` reads from a record, in plain Python: those of `parse="from_json"`.

A field that it cannot read is null, and so are all fields of a value that is no JSON object. A value that it reads but
that no table of ours holds is malformed: `NaN`, infinities, and times outside of the years 1000 to 8999. Columns in the
strict form of such a topic are read from the same JSON.
"""

import json
import math
import re
from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from cutover.definition.model.times import EPOCH_FORMATS, compile_pattern, convert_epoch_time, parse_iso_micros
from cutover.definition.model.topic import Field, Topic, build_tree, list_fields, parse_decimal_type
from cutover.records.classes import Reason
from cutover.records.parsing import limits
from cutover.records.parsing.parsed_record import (
    AFTER_LAST_DATE,
    FIRST_DATE,
    RANGES,
    REASONS,
    InvalidField,
    InvalidValueError,
    JsonNumber,
    JsonObject,
    ParsedRecord,
)
from cutover.records.reference import job_reader
from cutover.records.reference.job_reader import VARIANT, ReadValue, UnreadableError, read_columns, select_path
from cutover.records.reference.scalars import is_time_of_day, parse_timestamp, parse_value

_MAX_DECIMAL_DIGITS = 38
_RARE = re.compile(
    "|".join(pattern.replace(r"\p{Nd}", r"\d").replace(r"\s", r" \t\n\x0b\f\r") for _, pattern in limits.RARE_DECIMALS)
)
_DATED_TIME = re.compile(limits.JOB_DATED_TIME)
_NUMBER_TIME = re.compile(limits.JOB_NUMBER_TIME.replace(r"\z", r"\Z"))
_NAMED_ZONE = re.compile(limits.JOB_NAMED_ZONE)
_NAMED_ZONES_SINCE = parse_iso_micros(limits.JOB_NAMED_ZONES_SINCE)
_OLD_ZONE = re.compile(
    rf"{limits.JOB_OLD_ZONE}(?:(?:AST4|EST5|CST6|MST7|PST8|YST9)\b|AST4ADT|EST5EDT|CST6CDT|MST7MDT|PST8PDT|YST9YDT|HST10)"
)
_FIRST_DAY, _AFTER_LAST_DAY = ((day - date(1970, 1, 1)).days for day in (FIRST_DATE, AFTER_LAST_DATE))


def parse_job_value(value: bytes, topic: Topic, *, counts_unknown: bool = True) -> ParsedRecord:
    """Parse a value of at most `max_value_bytes` of a topic in this form, and perhaps count its unknown fields."""
    text = value.decode("utf-8", "replace")
    fields = list_fields(topic)
    values, invalid_fields = read_job_fields(text, fields, topic)
    return ParsedRecord(
        reason=min((invalid.reason for invalid in invalid_fields), key=REASONS.index, default=None),
        values=values,
        unknown=len(list_unknown_names(text, topic)) if counts_unknown else 0,
        invalid_fields=tuple(invalid_fields),
    )


def list_unknown_names(text: str, topic: Topic) -> list[str]:
    """List the names of top-level fields that no column is read from, in alphabetical order; none in broken JSON."""
    return sorted(set(job_reader.list_names(text)) - {field.path[0] for field in list_fields(topic)})


def read_job_fields(text: str, fields: Sequence[Field], topic: Topic) -> tuple[dict[str, Any], list[InvalidField]]:
    """Read some columns of a record, each in its form.

    Returns:
        Values by column, None if missing or invalid; and the invalid columns, in their order.
    """
    is_rare = any(map(_is_job_decimal, fields)) and _has_rare_decimal(text)
    row = read_columns(text, build_tree([(field.path, _read_as(field, is_rare=is_rare)) for field in fields]))
    values: dict[str, Any] = {}
    invalid_fields = []
    for field in fields:
        read = select_path(row, field.path)
        values[field.name], reason, is_rejected = _hold_value(text, read, field, topic, is_rare=is_rare)
        if reason is not None:
            member = read.member if read is not None and is_rejected else None
            invalid_fields.append(
                InvalidField(
                    name=field.name, type=field.type, time_format=field.time_format, reason=reason, value=member
                )
            )
    return values, invalid_fields


def read_field(member: Any, kind: str, time_format: str) -> Any:
    """Convert one value from JSON to a type; None for null.

    Raises:
        InvalidValueError: It is read, but no table holds the value.
        UnreadableError: It is not read.
    """
    if member is None:
        return None
    if isinstance(member, JsonObject | list):
        raise UnreadableError
    field = Field(name="value", type=kind, nullable=True, path=("value",), parse="from_json", time_format=time_format)
    text = member.text if isinstance(member, JsonNumber) else json.dumps(member)
    read = select_path(read_columns(f'{{"value":{text}}}', {"value": _read_as(field, is_rare=False)}), field.path)
    if read is None:
        raise UnreadableError
    return _convert(f'{{"value":{text}}}', read, field, is_rare=False)


def _is_job_decimal(field: Field) -> bool:
    return field.parse == "from_json" and parse_decimal_type(field.type) is not None


def _has_rare_decimal(text: str) -> bool:
    """Return whether Spark reads the decimals of a record from VARIANT (`cutover.records.parsing.job_values`)."""
    return _RARE.search(text) is not None


def _read_as(field: Field, *, is_rare: bool) -> str:
    if field.parse == "strict" or (is_rare and _is_job_decimal(field)):
        return VARIANT
    if field.type == "timestamp":
        return "bigint" if field.time_format in EPOCH_FORMATS else "string"
    return field.type


def _hold_value(
    text: str, read: ReadValue | None, field: Field, topic: Topic, *, is_rare: bool
) -> tuple[Any, Reason | None, bool]:
    """Return the value of a column, the reason if it is invalid, and whether it is read but rejected."""
    is_event_time = field.name == topic.event_time
    value = None
    if read is not None and read.value is not None:
        try:
            value = _convert(text, read, field, is_rare=is_rare)
        except InvalidValueError as error:
            is_invalid_time = is_event_time and (error.has_right_type or field.parse == "from_json")
            return None, Reason.EVENT_TIME if is_invalid_time else Reason.TYPE, True
        except UnreadableError:
            value = None
    if value is None and not field.nullable:
        return None, Reason.MISSING, False
    return value, Reason.EVENT_TIME if value is None and is_event_time else None, False


def _convert(text: str, read: ReadValue, field: Field, *, is_rare: bool) -> Any:
    value = read.value
    if field.parse == "strict":
        return parse_value(value, field.type, field.time_format)
    if is_rare and parse_decimal_type(field.type) is not None:
        return _convert_rare_decimal(value, field.type)
    if field.type == "timestamp" and field.time_format not in EPOCH_FORMATS:
        return hold_value(_convert_text_time(text, value, field), field)
    return hold_value(value, field)


def hold_value(value: Any, field: Field) -> Any:
    """Return a value as tables hold it: minus zero is zero; a date, by its days since 1970; a time in microseconds.

    Args:
        value: The value; of a time, a number in its epoch format, or microseconds.
        field: The column.

    Raises:
        InvalidValueError: No table holds it.
    """
    if field.type == "double":
        if not math.isfinite(value):
            raise InvalidValueError
        return value + 0.0
    if field.type == "date":
        if not _FIRST_DAY <= value < _AFTER_LAST_DAY:
            raise InvalidValueError
        return date(1970, 1, 1) + timedelta(days=value)
    if field.type == "timestamp":
        micros = convert_epoch_time(value, field.time_format) if field.time_format in EPOCH_FORMATS else value
        if not limits.MIN_MICROS <= micros <= limits.MAX_MICROS:
            raise InvalidValueError(has_right_type=True)
        return micros
    return value


def _convert_rare_decimal(value: Any, kind: str) -> Decimal:
    """Convert a value of VARIANT, in which long numbers and those with an exponent are doubles."""
    if isinstance(value, str):
        converted: Decimal = job_reader.convert_scalar(value, kind)
        return converted
    if not isinstance(value, JsonNumber):
        raise UnreadableError
    number = Decimal(value.text)
    digits, exponent = len(number.as_tuple().digits), int(number.as_tuple().exponent)
    is_long = value.is_whole and -RANGES["bigint"] <= number < RANGES["bigint"]
    is_decimal = "e" not in value.text.lower() and max(digits, -exponent) <= _MAX_DECIMAL_DIGITS
    if not is_long and not is_decimal:
        double = float(value.text)
        if not math.isfinite(double):
            raise UnreadableError
        number = Decimal(repr(double))
    return job_reader.round_decimal(number, kind)


def _convert_text_time(text: str, time: str, field: Field) -> int:
    """Convert the text of a time to microseconds.

    Raises:
        InvalidValueError: It is a time without a date, which Spark would take for one of today.
        UnreadableError: It is no time.
    """
    if _NUMBER_TIME.search(time):
        tree = build_tree([(field.path, VARIANT)])
        number = select_path(read_columns(text, tree), field.path)
        is_number = number is not None and isinstance(number.value, JsonNumber) and number.value.is_whole
        if number is not None and is_number and -(2**63) <= int(number.value.text) < 2**63:
            return _wrap_long(int(number.value.text) * 1_000_000)
    return cast_time_text(time, field.time_format)


def cast_time_text(time: str, time_format: str) -> int:
    """Convert a text to microseconds in the format of a column, as a job casts it; raises as `_convert_text_time`."""
    micros = _cast_iso_time(time) if time_format == "iso" else _cast_pattern_time(time, time_format)
    if micros is None or not -(2**63) <= micros < 2**63:
        raise UnreadableError
    return micros


def _wrap_long(number: int) -> int:
    """Return what Java has of a product that is beyond 64 bits."""
    return (number + 2**63) % 2**64 - 2**63


def _cast_pattern_time(time: str, pattern: str) -> int | None:
    try:
        return compile_pattern(pattern).parse(time)
    except ValueError:
        return None


def _cast_iso_time(time: str) -> int | None:
    micros = _cast_dated_time(time)
    return _cast_dated_time(time.replace("GMT", "", 1)) if micros is None and "GMT" in time else micros


def _cast_dated_time(time: str) -> int | None:
    if _DATED_TIME.match(time) or _NUMBER_TIME.search(time):
        has_old_zone = _OLD_ZONE.search(time) is not None
        micros = parse_timestamp(_OLD_ZONE.sub("UTC", time))
        is_unclear = has_old_zone or (micros is not None and micros < _NAMED_ZONES_SINCE and _NAMED_ZONE.search(time))
        if micros is not None and is_unclear:
            raise InvalidValueError(has_right_type=True)
        return micros
    if is_time_of_day(time):
        raise InvalidValueError(has_right_type=True)
    return None
