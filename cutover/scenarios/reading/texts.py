"""Scalar values of a scenario file: times, durations, numbers, keys; each is parsed once or rejected.

A time is given by clock (`12:05:19`), by date (`2013-03-10T02:30:00Z`), or without end (`+inf`). The published schema
and the messages share their descriptions.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum, auto
from typing import Annotated, Any, NoReturn

from pydantic import AfterValidator, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from cutover.definition.model.times import ISO_TIMESTAMP
from cutover.definition.windows.window_fn import EARLIEST, FOREVER, LATEST
from cutover.errors import DefinitionError
from cutover.panes.model import Number
from cutover.timestamps import MICROSECONDS, from_micros, parse_duration, to_micros

_CLOCK_TIME = re.compile(r"(-?)([0-9]{1,6}):([0-5][0-9])(?::([0-5][0-9])(?:[.]([0-9]{1,6}))?)?")
_INFINITE = {"-inf": -FOREVER, "+inf": FOREVER, "inf": FOREVER}
_MICROSECOND = timedelta(microseconds=1)

DIGITS, SCALE = 38, 30
"""Digits before and behind the point: a sum of a million such numbers is exact in the reference."""

A_TIME = "a time such as `12:05:19` or `2013-03-10T02:30:00Z`"
A_DURATION = "a whole number and a unit, such as `30 minutes`"
A_NUMBER = f"a number below 10^{DIGITS} with at most {SCALE} digits behind the point, or null"
A_KEY = "a text, a whole number or null"

_CLOCK = r"-?[0-9]{1,6}:[0-5][0-9](:[0-5][0-9]([.][0-9]{1,6})?)?"
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]+(Z|[+-][0-9]{2}:?[0-9]{2})?"


class Style(Enum):
    """Style in which a scenario writes its times and panes."""

    CLOCK = auto()  # hours, minutes and seconds after 1970-01-01T00:00:00Z; the hours may be negative or beyond 24
    DATE = auto()


@dataclass(frozen=True, slots=True)
class ScenarioTime:
    """Parsed time."""

    micros: int
    style: Style | None  # None: without end


def parse_scenario_time(text: object, *, of: str) -> ScenarioTime:
    """Parse `12:03`, ISO 8601 or an infinite time.

    Raises:
        DefinitionError: The text is not a time, or the time is before the year 1000 or after 8999.
    """
    if isinstance(text, str) and text in _INFINITE:
        return ScenarioTime(_INFINITE[text], None)
    time = _read(text) if isinstance(text, str) else None
    if time is None or not EARLIEST <= time.micros < LATEST:
        msg = f"{of}: expected a time such as `12:05:19`, `2013-03-10T02:30:00Z`, got {_quote_text(text)}."
        raise DefinitionError(msg)
    return time


def format_scenario_time(micros: int, style: Style) -> str:
    """Write a time in the scenario's style; `-inf` or `+inf` outside the supported years."""
    if abs(micros) == FOREVER or micros in {EARLIEST, LATEST}:
        return "-inf" if micros < 0 else "+inf"
    if style is Style.DATE:
        return from_micros(micros).isoformat().replace("+00:00", "Z")
    seconds, fraction = divmod(abs(micros), MICROSECONDS["second"])
    minutes, second = divmod(seconds, 60)
    text = f"{'-' if micros < 0 else ''}{minutes // 60:02}:{minutes % 60:02}:{second:02}"
    return f"{text}.{fraction:06}".rstrip("0") if fraction else text


def _read(text: str) -> ScenarioTime | None:
    match = _CLOCK_TIME.fullmatch(text)
    if match is not None:
        sign, hours, minutes, seconds, fraction = match.groups()
        total_seconds = (int(hours) * 60 + int(minutes)) * 60 + int(seconds or 0)
        micros = total_seconds * MICROSECONDS["second"] + int(f"{fraction or '':0<6}")
        return ScenarioTime(-micros if sign else micros, Style.CLOCK)
    if not re.fullmatch(ISO_TIMESTAMP, text):
        return None
    try:
        parsed = datetime.fromisoformat(text)
        moment = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
        return ScenarioTime(to_micros(moment), Style.DATE)
    except (ValueError, OverflowError):
        return None


def _quote_text(text: object) -> str:
    return f"`{text[:80]}`" if isinstance(text, str) else type(text).__name__


def reject_value(expected: str, *, actual: str = "", hint: str = "") -> NoReturn:
    """Reject a value; the message names its place, and shows the value itself if `actual` is empty."""
    kind = "expected"
    raise PydanticCustomError(kind, "{expected}", {"expected": expected, "got": actual, "hint": hint})


def _time(value: Any) -> ScenarioTime:
    try:
        return parse_scenario_time(value, of="")
    except DefinitionError:
        reject_value(f"{A_TIME}, `-inf` or `+inf`")


def _parse_finite(value: Any) -> ScenarioTime:
    moment = _time(value) if isinstance(value, str) else None
    if moment is None or abs(moment.micros) == FOREVER:
        reject_value(A_TIME)
    return moment


def _duration(value: str) -> str:
    try:
        parse_duration(value, of="")
    except DefinitionError:
        reject_value(f"{A_DURATION} (millisecond, second, minute, hour, day), at most 36500 days")
    return value


def _number(value: Any) -> Number | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not -(10**DIGITS) < value < 10**DIGITS:
        reject_value(A_NUMBER)
    if not value:
        return 0  # of a zero neither sign nor digits matter
    exponent = Decimal(value).as_tuple().exponent
    if not isinstance(exponent, int) or exponent < -SCALE:
        reject_value(A_NUMBER)
    return value


def _key(value: Any) -> str | int | None:
    if isinstance(value, bool) or not isinstance(value, str | int | None):
        reject_value(A_KEY)
    if isinstance(value, str) and not _is_text(value):
        reject_value("text of whole characters")
    return value


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


Time = Annotated[
    ScenarioTime,
    PlainValidator(_time),
    WithJsonSchema(
        {"type": "string", "pattern": rf"^([+-]?inf|{_CLOCK}|{_DATE})$", "description": A_TIME + ", or +inf"}
    ),
]
FiniteTime = Annotated[
    ScenarioTime,
    PlainValidator(_parse_finite),
    WithJsonSchema({"type": "string", "pattern": rf"^({_CLOCK}|{_DATE})$", "description": A_TIME}),
]
Duration = Annotated[
    str,
    AfterValidator(_duration),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^\s*[0-9]{1,18}\s*(millisecond|second|minute|hour|day)s?\s*$",
            "description": A_DURATION,
        }
    ),
]
Value = Annotated[
    Number | None, PlainValidator(_number), WithJsonSchema({"type": ["number", "null"], "description": A_NUMBER})
]
KeyText = Annotated[
    str | int | None,
    PlainValidator(_key),
    WithJsonSchema({"type": ["string", "integer", "null"], "description": A_KEY}),
]
