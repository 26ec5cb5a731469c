"""Dates and timestamps in all forms that Spark casts from a text, as `from_json` does without a format.

A time without a date, such as `12:30`, would be one of the day on which it is read; here it is none.
"""

import re
from datetime import timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from cutover.definition.windows.window_fn import EARLIEST, LATEST
from cutover.timestamps import count_days, from_micros

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
