"""Patterns of times, such as `dd.MM.yyyy HH:mm`: the letters of Spark's patterns that all parsers read alike.

Texts match without case. Every pattern has year, month and day; without an hour a time is midnight, and without a zone
it is in UTC. Digits after the microsecond are truncated.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import NoReturn

from cutover.errors import DefinitionError
from cutover.timestamps import count_days

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
