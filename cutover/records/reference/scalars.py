"""Conversion of single values to the types of a schema: strictly, and dates and times as Spark casts them from a text.

The strict form follows the rules of `cutover.records.parsing.limits`. The other one accepts all forms that `from_json`
reads without a format; a time without a date, such as `12:30`, would be one of the day on which it is read, and is none
here.
"""

import math
import re
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from cutover.definition.model.times import EPOCH_FORMATS, convert_epoch_time, parse_text_time
from cutover.definition.model.topic import parse_decimal_type
from cutover.definition.windows.window_fn import EARLIEST, LATEST
from cutover.records.parsing import limits
from cutover.records.parsing.parsed_record import (
    AFTER_LAST_DATE,
    EXACT,
    FIRST_DATE,
    RANGES,
    UNPAIRED_SURROGATE,
    InvalidValueError,
    JsonNumber,
)
from cutover.timestamps import count_days, from_micros

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


_BLANK = "".join(map(chr, (*range(33), 127)))
_DATE = re.compile(r"([+-]?[0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TIMESTAMP = re.compile(
    r"([+-]?[0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})"
    r"(?:\.([0-9]*))?(?P<zone>[^0-9].*)?)?)?)?)?)?",
    re.DOTALL,
)
_OFFSET = re.compile(
    r"([+-])([0-9]{1,2})|([+-])([0-9]{2})([0-9]{2})([0-9]{2})?|([+-])([0-9]{2}):([0-9]{2})(?::([0-9]{2}))?"
)
_BEYOND_BMP = re.compile("[\U00010000-\U0010ffff]")  # Java has no digits there
_MAX_DAYS_TEXT = 4_000  # Python converts no longer one
_MAX_OFFSET = 18 * 3600
_PREFIX = re.compile(r"(?:UTC|GMT|UT)([+-].*)?", re.DOTALL)
_SHORT_IDS = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh", "EST": "-05:00", "MST": "-07:00", "HST": "-10:00",
}  # fmt: skip
_NOT_IN_JAVA = {"America/Coyhaique", "Factory", "ROC", "localtime", "leapseconds", "tzdata.zi"}


def parse_date(text: str) -> int | None:
    """Return the days since 1970, in any year; None if Spark reads no date."""
    days = parse_cast_date(text)
    return _read_days(text) if days is None else days


def parse_cast_date(text: str) -> int | None:
    """Return the days since 1970 of a date in a form that Spark casts, with a first `GMT` or without it."""
    days = _cast_date(text)
    return _cast_date(text.replace("GMT", "", 1)) if days is None else days


def parse_timestamp(text: str) -> int | None:
    """Return the microseconds since 1970, in any year, without a zone in UTC; None if Spark reads no timestamp."""
    return _cast_timestamp(text)


def is_time_of_day(text: str) -> bool:
    """Return whether Spark reads a time without a date."""
    if text[:1] == "T":
        return _cast_timestamp(f"2026-01-01{text}") is not None
    time = text.lstrip(_BLANK)
    return re.match("[0-9]{1,2}:", time) is not None and _cast_timestamp(f"2026-01-01T{time}") is not None


def _cast_date(text: str) -> int | None:
    match = _DATE.fullmatch(text.strip(_BLANK))
    if match is None:
        return None
    try:
        days = count_days(int(match[1]), int(match[2] or 1), int(match[3] or 1))
    except ValueError:
        return None
    return days if -(2**31) <= days < 2**31 else None


def _read_days(text: str) -> int | None:
    """Read a whole number of days since 1970 in the calendar of Java 7, which is Julian before 1582-10-15."""
    if (
        len(text) > _MAX_DAYS_TEXT
        or not re.fullmatch(r"[+-]?\d+", text)
        or _BEYOND_BMP.search(text)
        or not -(2**31) <= int(text) < 2**31
    ):
        return None
    days = int(text)
    gregorian_start = -141_427
    return days if days >= gregorian_start else _rebase_julian_days(days)


def _rebase_julian_days(days: int) -> int:
    """Return the Gregorian day that has the same year, month and day as a Julian one; 29 February may be 1 March."""
    since_march = days + 719_470  # days since 0000-03-01 of the Julian calendar
    cycles, day_of_cycle = divmod(since_march, 1_461)
    year_of_cycle = min(day_of_cycle // 365, 3)
    day_of_year = day_of_cycle - 365 * year_of_cycle
    month_index = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_index + 2) // 5 + 1
    year = 4 * cycles + year_of_cycle + (month_index >= 10)  # noqa: PLR2004 -- January and February
    month = (month_index + 2) % 12 + 1
    try:
        return count_days(year, month, day)
    except ValueError:
        return count_days(year, month, day - 1) + 1


def _cast_timestamp(text: str) -> int | None:
    match = _TIMESTAMP.fullmatch(text.strip(_BLANK))
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    if hour > 23 or minute > 59 or second > 59:  # noqa: PLR2004 -- of a clock
        return None
    try:
        days = count_days(year, 1 if match[2] is None else month, 1 if match[3] is None else day)
        local = ((days * 24 + hour) * 60 + minute) * 60_000_000 + second * 1_000_000
        local += int(f"{match[7] or '0':0<6}"[:6])
        micros = local - _find_offset(match["zone"], local)
    except ValueError:
        return None
    return micros if -(2**63) <= micros < 2**63 else None


def _find_offset(zone: str | None, local: int) -> int:
    """Return the offset of a zone at a local time, in microseconds; in a gap that before it, in an overlap the first.

    Raises:
        ValueError: There is no such zone.
    """
    if zone is None:
        return 0
    name = re.sub(r"([+-])([0-9]):", r"\g<1>0\2:", zone.strip(_BLANK[:33]), count=1)
    name = re.sub(r"([+-])([0-9]{2}):([0-9])\Z", r"\1\2:0\3", name, count=1)
    name = _SHORT_IDS.get(name, name)
    if name == "Z":
        return 0
    prefixed = _PREFIX.fullmatch(name)
    if prefixed is not None or name[:1] in {"+", "-"}:
        offset = name if prefixed is None else prefixed[1]
        return 0 if offset is None else _parse_offset(offset)
    if name not in _list_zones():
        msg = "no zone"
        raise ValueError(msg)
    inside = min(max(local, EARLIEST - 10**12), LATEST + 10**12)  # beyond, any offset is as good
    moment = from_micros(inside).replace(tzinfo=ZoneInfo(name))
    offset_now = moment.utcoffset() or timedelta()
    return offset_now // timedelta(microseconds=1)


def _parse_offset(text: str) -> int:
    match = _OFFSET.fullmatch(text)
    if match is None:
        msg = "no offset"
        raise ValueError(msg)
    sign, hours, minutes, seconds = [*(part for part in match.groups() if part is not None), "0", "0"][:4]
    total = int(hours) * 3600 + int(minutes) * 60 + int(seconds)
    if int(minutes) > 59 or int(seconds) > 59 or total > _MAX_OFFSET:  # noqa: PLR2004 -- of a clock
        msg = "no offset"
        raise ValueError(msg)
    return total * (-1_000_000 if sign == "-" else 1_000_000)


@cache
def _list_zones() -> frozenset[str]:
    return frozenset(available_timezones() - _NOT_IN_JAVA)
