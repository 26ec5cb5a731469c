"""Times as records encode them: the `timestamp` values that parsers accept, and names of the forms that they reject.

Patterns of times, such as `dd.MM.yyyy HH:mm`, have the letters of Spark's patterns that all parsers read alike. Texts
match without case. Every pattern has year, month and day; without an hour a time is midnight, and without a zone it is
in UTC. Digits after the microsecond are truncated.
"""

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import NoReturn

from cutover.definition.windows.window_fn import EARLIEST, LATEST
from cutover.errors import DefinitionError
from cutover.timestamps import count_days, to_micros

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
EXAMPLE = "dd.MM.yyyy HH:mm"

_ANY_NUMBER = "[0-9]{1,9}"
_ELEMENTS = {
    "yyyy": ("year", r"[0-9]{4}|\+[0-9]{5,6}"),
    "MMM": ("month", "|".join(MONTHS)),
    "MM": ("month", "[0-9]{2}"),
    "M": ("month", _ANY_NUMBER),
    "dd": ("day", "[0-9]{2}"),
    "d": ("day", _ANY_NUMBER),
    "HH": ("hour", "[0-9]{2}"),
    "H": ("hour", _ANY_NUMBER),
    "hh": ("half_day_hour", "[0-9]{2}"),
    "h": ("half_day_hour", _ANY_NUMBER),
    "mm": ("minute", "[0-9]{2}"),
    "ss": ("second", "[0-9]{2}"),
    "a": ("half_day", "am|pm"),
    "XXX": ("zone", "z|[+-](?:0[0-9]|1[0-7]):[0-5][0-9]|[+-]18:00"),
    "XX": ("zone", "z|[+-](?:0[0-9]|1[0-7])[0-5][0-9]|[+-]1800"),
    "Z": ("zone", "[+-](?:0[0-9]|1[0-7])[0-5][0-9]|[+-]1800"),
    **{"S" * count: ("fraction", f"[0-9]{{1,{count}}}") for count in range(1, 10)},
}
_NEEDS = {"minute": {"hour", "half_day_hour"}, "second": {"minute"}, "fraction": {"second"}}
_PART = re.compile(r"(?P<letters>(?P<letter>[A-Za-z])(?P=letter)*)|'(?P<text>[^']+)'|(?P<other>[^A-Za-z'])")
_LITERAL = re.compile(r"[ !#-\[\]-~]*\Z")  # printable ASCII without quotes and backslash, which SQL would interpret
_RESERVED = "[]{}#"
"""Characters that Java keeps for optional parts and later use; between quotes they stand for themselves."""

_HALF_DAY = 12


@dataclass(frozen=True, slots=True)
class TimePattern:
    """Compiled pattern."""

    regex: str  # of the whole text, to be matched without case; valid in Python and in Java
    fields: tuple[str, ...]  # field of each group of `regex`

    def parse(self, text: str) -> int:
        """Convert a text to microseconds since 1970, in any year.

        Raises:
            ValueError: The text does not match the pattern, or the time does not exist.
        """
        match = re.fullmatch(self.regex, text, re.IGNORECASE | re.ASCII)
        if match is None:
            msg = "not a time"
            raise ValueError(msg)
        return _count_micros(dict(zip(self.fields, match.groups(), strict=True)))


@cache
def compile_pattern(pattern: str) -> TimePattern:
    """Compile a pattern.

    Raises:
        DefinitionError: The message says what the pattern lacks, or which part of it is not supported.
    """
    fields: list[str] = []
    regex: list[str] = []
    position = 0
    follows_open_number = follows_number = follows_year = False
    while position < len(pattern):
        part = _PART.match(pattern, position)
        if part is None:
            _reject(pattern, "text between two quotes")
        position = part.end()
        if part["letters"] is None:
            literal = part["text"] if part["other"] is None else part["other"]
            if literal in _RESERVED and part["other"] is not None:
                _reject(pattern, f"`{literal}` between quotes, since it is reserved")
            if follows_number and literal[0].isdigit():
                _reject(pattern, "no digit behind a number", literal)
            regex.append(_escape_literal(literal, pattern))
            follows_open_number = follows_number = follows_year = False
            continue
        name, shape = _ELEMENTS.get(part["letters"]) or _reject(pattern, "only supported letters", part["letters"])
        if follows_open_number and shape.startswith("[0-9]"):
            _reject(pattern, f"a character before `{part['letters']}`, where the number before it ends")
        if follows_year and name == "fraction":
            _reject(pattern, f"a character before `{part['letters']}`: Spark reads no fraction in a row with the year")
        follows_open_number = shape == _ANY_NUMBER or name == "fraction"
        follows_number = shape.startswith("[0-9]")
        follows_year = follows_number and (follows_year or name == "year")
        fields.append(name)
        regex.append(f"({shape})")
    _check_fields(fields, pattern)
    return TimePattern("".join(regex), tuple(fields))


def _escape_literal(text: str, pattern: str) -> str:
    if not _LITERAL.match(text):
        _reject(pattern, "only printable ASCII without quotes and backslashes", text)
    return re.escape(text)


def _check_fields(fields: list[str], pattern: str) -> None:
    names = set(fields)
    if len(names) < len(fields):
        _reject(pattern, "each field once")
    if not {"year", "month", "day"} <= names:
        _reject(pattern, "year, month and day (yyyy, MM, dd)")
    if ("half_day" in names) != ("half_day_hour" in names) or {"hour", "half_day_hour"} <= names:
        _reject(pattern, "HH, or hh with a")
    for name, needed in _NEEDS.items():
        if name in names and not names & needed:
            _reject(pattern, f"{' or '.join(sorted(needed))} with {name}")


def _reject(pattern: str, expected: str, actual: str | None = None) -> NoReturn:
    msg = f"Pattern `{pattern[:80]}`: expected {expected}" + ("." if actual is None else f", got {actual[:80]!r}.")
    msg += f"\nHint: such as {EXAMPLE!r}; supported are {', '.join(_ELEMENTS)}."
    raise DefinitionError(msg)


def _count_micros(texts: dict[str, str]) -> int:
    month = texts["month"].lower()
    month_number = MONTHS.index(month) + 1 if month in MONTHS else int(month)
    hour = _parse_hour(texts)
    minute, second = int(texts.get("minute", 0)), int(texts.get("second", 0))
    if hour > 23 or minute > 59 or second > 59:  # noqa: PLR2004 -- of a clock
        msg = "no time of day"
        raise ValueError(msg)
    days = count_days(int(texts["year"]), month_number, int(texts["day"]))
    seconds = ((days * 24 + hour) * 60 + minute) * 60 + second - _parse_offset(texts.get("zone", "z"))
    return seconds * 1_000_000 + int(f"{texts.get('fraction', '0'):0<6}"[:6])


def _parse_hour(texts: dict[str, str]) -> int:
    if "half_day" not in texts:
        return int(texts.get("hour", 0))
    hour = int(texts["half_day_hour"])
    if not 1 <= hour <= _HALF_DAY:
        msg = "no hour of half a day"
        raise ValueError(msg)
    return hour % _HALF_DAY + (_HALF_DAY if texts["half_day"].lower() == "pm" else 0)


def _parse_offset(zone: str) -> int:
    """Return the seconds east of UTC."""
    if zone.lower() == "z":
        return 0
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return minutes * (-60 if zone[0] == "-" else 60)


ISO_TIMESTAMP = (
    "[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-4]):[0-5][0-9])?)?"
)
"""Pattern of the whole text of a timestamp. Without a zone it is UTC; digits after the microsecond are truncated; a
date without a time is its midnight in UTC."""

EPOCH_FORMATS = {"seconds": 1, "millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}
"""Formats of times as whole numbers since 1970, and the units of a second."""

YEARS_2000_TO_2100 = (946_684_800, 4_102_444_800)
"""Range, in seconds since 1970, in which a number is recognized as a time."""

_ISO = re.compile(ISO_TIMESTAMP)
_FRACTION_AND_ZONE = re.compile(r"(?:[.]([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))?")
_UNIX = (("seconds", 1), ("milliseconds", 1_000), ("microseconds", 1_000_000), ("nanoseconds", 1_000_000_000))
_NUMBER = re.compile(r"[0-9]{9,20}([.][0-9]+)?")
_ISO_LIKE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?P<between>[T ]|t)[0-9]{2}:[0-9]{2}(?P<seconds>:[0-9]{2})?"
    r"(?:(?P<point>[.,])(?P<digits>[0-9]+))?(?P<blank> *)"
    r"(?P<zone>Z|z|[+-][0-9]{1,2}(?::?[0-9]{2})?|[A-Za-z]+(?:/[A-Za-z_]+)*)?(?P<brackets>\[[^\]]*\])?"
)
_CLOCK = r"(?P<clock>[ T,]+[0-9]{1,2}:[0-9]{2}(?P<seconds>:[0-9]{2})?(?P<fraction>[.][0-9]+)?(?P<half> ?[AaPp][Mm])?)?"
_NUMBERS = re.compile(rf"(?P<first>[0-9]{{1,2}})(?P<mark>[/.-])(?P<second>[0-9]{{1,2}})(?P=mark)[0-9]{{4}}{_CLOCK}")
_YEAR_FIRST = re.compile(rf"[0-9]{{4}}(?P<mark>[/.])[0-9]{{1,2}}(?P=mark)[0-9]{{1,2}}{_CLOCK}")
_NAMED = (
    (re.compile(r"[0-9]{8}T?[0-9]{6}Z?"), "yyyyMMdd'T'HHmmss"),
    (re.compile(r"[0-9]{1,2}/[A-Za-z]{3}/[0-9]{4}:[0-9:]{8} [+-][0-9]{4}"), "dd/MMM/yyyy:HH:mm:ss Z"),
    (re.compile(r"[A-Za-z]{3}, [0-9]{1,2} [A-Za-z]{3} [0-9]{4} [0-9:]{8}.*"), "EEE, dd MMM yyyy HH:mm:ss zzz"),
    (re.compile(r"[0-9]{1,2}[- ][A-Za-z]{3}[- ][0-9]{4}.*"), "dd-MMM-yyyy HH:mm:ss"),
)
_DATE_FIRST = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([T ].*)?")
_PARTS = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[T ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.][0-9]{1,9})?"
    r"(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})?)?"
)
_PARTIAL_ISO = (
    (re.compile(r"[0-9]{4}-[0-9]{2}"), "neither day nor time"),
    (re.compile(r"[0-9]{4}-[0-9]{3}([T ].*)?"), "a day of the year"),
    (re.compile(r"[0-9]{4}-W[0-9]{2}(-[0-9])?([T ].*)?"), "a week"),
    (re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}(Z|[+-][0-9:]+)?"), "no minutes"),
    (re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([T ][0-9]{1,2}:[0-9]{1,2}(:[0-9]{1,2}.*)?)?"), "numbers of one digit"),
    (re.compile(r"[+-]?[0-9]{5,}-[0-9]{2}-[0-9]{2}([T ].*)?"), "a year of more than four digits"),
)
_LAST_MONTH = 12


def convert_epoch_time(number: int, time_format: str) -> int:
    """Convert a whole number of an epoch format to microseconds since 1970; nanoseconds are rounded down."""
    return number * 1_000_000 // EPOCH_FORMATS[time_format]


def parse_text_time(text: str, time_format: str) -> int:
    """Convert a text in ISO 8601 or in a pattern to microseconds since 1970; without a zone it is UTC.

    Raises:
        ValueError: The text has another form, the time does not exist, or it is not in the years 1000 to 8999.
    """
    if time_format == "iso":
        return parse_iso_micros(text)
    return _check_range(compile_pattern(time_format).parse(text))


def parse_iso_micros(text: str) -> int:
    """Convert an ISO 8601 time to microseconds since 1970; without a zone it is UTC.

    Raises:
        ValueError: The text has another form, the time does not exist, or it is not in the years 1000 to 8999.
    """
    if not _ISO.fullmatch(text):
        _reject_time()
    seconds_part = datetime.fromisoformat(text[:19]).replace(tzinfo=UTC)
    match = _FRACTION_AND_ZONE.fullmatch(text[19:])
    fraction, sign, hours, minutes = match.groups() if match else (None, None, None, None)
    offset_minutes = (int(hours or 0) * 60 + int(minutes or 0)) * (-1 if sign == "-" else 1)
    micros = to_micros(seconds_part) + int(f"{fraction or '0':0<6}"[:6])
    return _check_range(micros - offset_minutes * 60_000_000)


def _check_range(micros: int) -> int:
    return micros if EARLIEST <= micros < LATEST else _reject_time()


def _reject_time() -> int:
    msg = "not a time"
    raise ValueError(msg)


def name_time_form(text: str, *, is_number: bool) -> str | None:
    """Name the form of a time that records may not use; None if the value does not resemble a time.

    Args:
        text: The value as written.
        is_number: Whether it is a JSON number.
    """
    if _NUMBER.fullmatch(text):
        return _name_unix_form(text, is_number=is_number)
    if is_number:
        return None
    patterns = " or ".join(f"`{pattern}`" for pattern in list_patterns(text))
    return _name_missing_time(text) or _name_iso_variant(text) or (f"pattern {patterns}" if patterns else None)


def name_rejected_time(text: str, *, is_number: bool) -> str | None:
    """Name the form of a value where a time is expected; arguments as `name_time_form`."""
    form = name_time_form(text, is_number=is_number)
    if form or is_number or _PARTS.fullmatch(text):
        return form
    return next((f"ISO 8601 with {name}" for shape, name in _PARTIAL_ISO if shape.fullmatch(text)), None)


def _name_missing_time(text: str) -> str | None:
    """Name the reason why a text with the form of a timestamp is not one."""
    if text != text.strip() and _DATE_FIRST.match(text.strip()):
        return "a blank before or after the time"
    match = _PARTS.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.group(1, 2, 3, 4, 5, 6))
    has_day = 1 <= month <= _LAST_MONTH and 1 <= day <= (monthrange(year, month)[1] if year else 31)
    reasons = {
        f"there is no day {text[:10]}": not has_day,
        f"there is no time of day {text[11:16]}": hour > 23 or minute > 59,  # noqa: PLR2004 -- of a clock
        "a leap second": second == 60,  # noqa: PLR2004 -- of a clock
        f"there is no second {second}": second > 60,  # noqa: PLR2004 -- of a clock
        f"an offset beyond 14:59 (`{match['zone']}`)": not _ISO.fullmatch(text),
    }
    reason = next((name for name, applies in reasons.items() if applies), None)
    return reason or (None if _is_time(text) else "only years 1000 to 8999 are accepted")


def _is_time(text: str) -> bool:
    try:
        parse_iso_micros(text)
    except ValueError:
        return False
    return True


def _name_unix_form(text: str, *, is_number: bool) -> str | None:
    seconds, _, fraction = text.partition(".")
    if seconds.startswith("0"):
        return None  # a code
    low, high = YEARS_2000_TO_2100
    for unit, per_second in _UNIX:
        if low * per_second <= int(seconds) < high * per_second:
            name = f"Unix {unit}" + (" with a fraction" if fraction else "")
            return name if is_number else f"{name} as text"
    return None


def _name_iso_variant(text: str) -> str | None:
    match = _ISO_LIKE.fullmatch(text)
    if match is None:
        return None
    zone = match["zone"] or ""
    offset = zone[1:] if zone[:1] in {"+", "-"} else ""
    variants = {
        "a lower-case `t` or `z`": match["between"] == "t" or zone == "z",
        "no seconds": match["seconds"] is None,
        "a comma before the fraction": match["point"] == ",",
        "more than 9 digits after the second": len(match["digits"] or "") > 9,  # noqa: PLR2004 -- nanoseconds
        "a blank before the zone": bool(match["blank"] and zone),
        f"an offset without minutes (`{zone}`)": 0 < len(offset) <= len("00"),
        f"an offset without a colon (`{zone}`)": len(offset) > len("00") and ":" not in offset,
        f"a named zone (`{zone}`)": zone not in {"", "Z", "z"} and not offset,
        "a named zone in brackets": match["brackets"] is not None,
    }
    deviations = [name for name, applies in variants.items() if applies]
    return f"ISO 8601 with {' and '.join(deviations)}" if deviations else None


def list_patterns(text: str) -> tuple[str, ...]:
    """List the usual patterns that a text may have; none for ISO 8601."""
    for shape, pattern in _NAMED:
        if shape.fullmatch(text):
            return (pattern,)
    match = _YEAR_FIRST.fullmatch(text)
    if match:
        return (f"yyyy{match['mark']}MM{match['mark']}dd{_clock_pattern(match)}",)
    match = _NUMBERS.fullmatch(text)
    return _list_orders(match) if match else ()


def _list_orders(match: re.Match[str]) -> tuple[str, ...]:
    """List the patterns with the month or the day first, of which only one may be possible."""
    mark, clock = match["mark"], _clock_pattern(match)
    american, european = f"MM{mark}dd{mark}yyyy{clock}", f"dd{mark}MM{mark}yyyy{clock}"
    if int(match["second"]) > _LAST_MONTH or (match["half"] and int(match["first"]) <= _LAST_MONTH):
        return (american,)
    if int(match["first"]) > _LAST_MONTH or mark == ".":
        return (european,)
    return american, european


def _clock_pattern(match: re.Match[str]) -> str:
    if not match["clock"]:
        return ""
    clock = "hh:mm" if match["half"] else "HH:mm"
    return (
        f" {clock}{':ss' if match['seconds'] else ''}{'.SSS' if match['fraction'] else ''}"
        f"{' a' if match['half'] else ''}"
    )
