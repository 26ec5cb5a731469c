"""Spark's `from_json` with default options in plain Python, for topics of `parse="from_json"`.

A field that it cannot read is null, and so are all fields of a value that is no JSON object. A value that it reads but
that no table of ours holds is malformed: `NaN`, infinities, and times outside of the years 1000 to 8999.
"""

import math
import re
from collections.abc import Callable
from datetime import date, timedelta
from decimal import MAX_PREC, ROUND_HALF_UP, Context, Decimal
from typing import Any

from cutover.definition.model.time_patterns import compile_pattern
from cutover.definition.model.times import EPOCH_FORMATS, convert_epoch_time
from cutover.definition.model.topic import Field, Topic, list_fields, parse_decimal_type
from cutover.records.classes import Reason
from cutover.records.parsing import limits
from cutover.records.reference.java_numbers import format_java_number
from cutover.records.reference.lenient_json import UNREADABLE, BrokenJsonError, NestedValue, read_members
from cutover.records.reference.spark_times import is_time_of_day, parse_date, parse_timestamp
from cutover.records.reference.values import (
    AFTER_LAST_DATE,
    EXACT,
    FIRST_DATE,
    RANGES,
    REASONS,
    InvalidField,
    InvalidValueError,
    JsonNumber,
    ParsedRecord,
)

_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_LONG_EXPONENT = re.compile(r"[eE][+-]?\d{5}")
_DATED_TIME = re.compile(limits.JOB_DATED_TIME)
_NUMBER_TIME = re.compile(limits.JOB_NUMBER_TIME.replace(r"\z", r"\Z"))
_NOT_FINITE = frozenset({"NaN", "+INF", "+Infinity", "Infinity", "-INF", "-Infinity"})
_EXACT = Context(prec=MAX_PREC, rounding=ROUND_HALF_UP, Emin=-(10**17), Emax=10**17)
_FIRST_DAY, _AFTER_LAST_DAY = ((day - date(1970, 1, 1)).days for day in (FIRST_DATE, AFTER_LAST_DATE))


class UnreadableError(Exception):
    """Value that `from_json` does not read as the type."""


def parse_job_value(value: bytes, topic: Topic) -> ParsedRecord:
    """Parse a value of at most `max_value_bytes` as `from_json(CAST(value AS string), schema)` does."""
    fields = {item.name: item for item in list_fields(topic)}
    try:
        members = read_members(value.decode("utf-8", "replace"), fields.keys())
    except BrokenJsonError:
        members = []
    values: dict[str, Any] = dict.fromkeys(fields)
    beyond: dict[str, Any] = {}  # raw values that are read, but that no table holds
    for name, member in members:
        if name in fields:
            _read_member(fields[name], member, topic.time_format, values, beyond)
    invalid_fields = tuple(_list_invalid(fields, topic, values, beyond))
    return ParsedRecord(
        reason=min((invalid.reason for invalid in invalid_fields), key=REASONS.index, default=None),
        values=values,
        unknown=len(_list_unknown(members, fields)),
        invalid_fields=invalid_fields,
    )


def list_unknown_names(value: bytes, topic: Topic) -> list[str]:
    """List the names of a value's fields that are not in the schema, in alphabetical order."""
    fields = {item.name: item for item in list_fields(topic)}
    try:
        return sorted(_list_unknown(read_members(value.decode("utf-8", "replace"), fields.keys()), fields))
    except BrokenJsonError:
        return []


def _list_unknown(members: list[tuple[str, Any]], fields: dict[str, Field]) -> set[str]:
    """List the names that are not in the schema; none if a value is broken, since Spark cannot list them then."""
    is_broken = any(value is UNREADABLE for _, value in members)
    return set() if is_broken else {name for name, _ in members} - fields.keys()


def _read_member(item: Field, member: Any, time_format: str, values: dict[str, Any], beyond: dict[str, Any]) -> None:
    try:
        values[item.name] = read_field(member, item.type, time_format)
        beyond.pop(item.name, None)
    except InvalidValueError:
        values[item.name], beyond[item.name] = None, member
    except UnreadableError:
        if member is not UNREADABLE and item.type == "timestamp" and time_format not in EPOCH_FORMATS:
            values[item.name] = None  # of other types an earlier value remains
            beyond.pop(item.name, None)


def _list_invalid(
    fields: dict[str, Field], topic: Topic, values: dict[str, Any], beyond: dict[str, Any]
) -> list[InvalidField]:
    invalid: list[InvalidField] = []
    for name, item in fields.items():
        if values[name] is not None:
            continue
        reason = None
        if name in beyond:
            reason = Reason.EVENT_TIME if name == topic.event_time else Reason.TYPE
        elif not item.nullable:
            reason = Reason.MISSING
        elif name == topic.event_time:
            reason = Reason.EVENT_TIME
        if reason is not None:
            invalid.append(InvalidField(name=name, type=item.type, reason=reason, value=beyond.get(name)))
    return invalid


def read_field(member: Any, kind: str, time_format: str) -> Any:
    """Convert a token to a type; None for null.

    Raises:
        InvalidValueError: It is read, but no table holds the value.
        UnreadableError: It is not read.
    """
    if member is None:
        return None
    if member is UNREADABLE:
        raise UnreadableError
    if kind == "timestamp":
        return _read_time(member, time_format)
    return _READERS[kind](member) if kind in _READERS else _read_decimal(member, kind)


def _read_boolean(member: Any) -> bool:
    if not isinstance(member, bool):
        raise UnreadableError
    return member


def _read_whole(member: Any, kind: str) -> int:
    if not isinstance(member, JsonNumber) or not member.is_whole:
        raise UnreadableError
    number = int(member.text)
    if not -RANGES[kind] <= number < RANGES[kind]:
        raise UnreadableError
    return number


def _read_double(member: Any) -> float:
    number = float(member.text) if isinstance(member, JsonNumber) else member
    if number in _NOT_FINITE or (isinstance(number, float) and not math.isfinite(number)):
        raise InvalidValueError
    if not isinstance(number, float):
        raise UnreadableError
    return number + 0.0  # minus zero is zero


def _read_decimal(member: Any, kind: str) -> Decimal:
    text = member.replace(",", "") if isinstance(member, str) else getattr(member, "text", "")
    is_long = isinstance(member, str) and (len(member) > limits.MAX_DECIMAL_TEXT or _LONG_EXPONENT.search(member))
    if is_long or not _DECIMAL.fullmatch(text):
        raise UnreadableError
    number = Decimal(text)
    precision, scale = parse_decimal_type(kind) or (0, 0)
    if number and number.adjusted() >= precision - scale:
        raise UnreadableError
    near = Decimal(0) if number.adjusted() < -scale - 1 else number
    rounded = near.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    if rounded and rounded.adjusted() >= precision - scale:
        raise UnreadableError
    return EXACT.add(rounded, Decimal(0))  # minus zero is zero


def _read_text(member: Any) -> str:
    if isinstance(member, str):
        return member.encode("utf-8", "replace").decode()
    return member.text if isinstance(member, NestedValue) else format_java_number(member)


def _read_date(member: Any) -> date:
    days = parse_date(member) if isinstance(member, str) else None
    if days is None:
        raise UnreadableError
    if not _FIRST_DAY <= days < _AFTER_LAST_DAY:
        raise InvalidValueError
    return date(1970, 1, 1) + timedelta(days=days)


def _read_time(member: Any, time_format: str) -> int:
    if time_format in EPOCH_FORMATS:
        micros = convert_epoch_time(_read_whole(member, "bigint"), time_format)
    elif isinstance(member, JsonNumber):  # seconds, whatever the format of texts is
        if not _NUMBER_TIME.search(_read_text(member)):
            raise UnreadableError
        micros = int(member.text) * 1_000_000
    elif isinstance(member, str):
        micros = _read_text_time(member, time_format)
    else:
        raise UnreadableError
    if not limits.MIN_MICROS <= micros <= limits.MAX_MICROS:
        raise InvalidValueError(has_right_type=True)
    return micros


def _read_text_time(text: str, time_format: str) -> int:
    if time_format == "iso":
        if is_time_of_day(text):  # Spark would read one of today
            raise InvalidValueError(has_right_type=True)
        micros = parse_timestamp(text) if _DATED_TIME.match(text) or _NUMBER_TIME.search(text) else None
    else:
        try:
            micros = compile_pattern(time_format).parse(text)
        except ValueError:
            micros = None
    if micros is None or not -(2**63) <= micros < 2**63:
        raise UnreadableError
    return micros


_READERS: dict[str, Callable[[Any], Any]] = {
    "boolean": _read_boolean,
    "int": lambda member: _read_whole(member, "int"),
    "bigint": lambda member: _read_whole(member, "bigint"),
    "double": _read_double,
    "string": _read_text,
    "date": _read_date,
}
