"""Scalar values of a scenario file: times, durations, numbers, keys; each is parsed once or rejected.

The published schema and the messages share their descriptions.
"""

from decimal import Decimal
from typing import Annotated, Any, NoReturn

from pydantic import AfterValidator, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from cutover.definition.windows.window_fn import FOREVER
from cutover.durations import parse_duration
from cutover.errors import DefinitionError
from cutover.panes.tally import Number
from cutover.scenarios.reading import times
from cutover.scenarios.reading.times import ScenarioTime

DIGITS, SCALE = 38, 30
"""Digits before and behind the point: a sum of a million such numbers is exact in the reference."""

A_TIME = "a time such as `12:05:19` or `2013-03-10T02:30:00Z`"
A_DURATION = "a whole number and a unit, such as `30 minutes`"
A_NUMBER = f"a number below 10^{DIGITS} with at most {SCALE} digits behind the point, or null"
A_KEY = "a text, a whole number or null"

_CLOCK = r"-?[0-9]{1,6}:[0-5][0-9](:[0-5][0-9]([.][0-9]{1,6})?)?"
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]+(Z|[+-][0-9]{2}:?[0-9]{2})?"


def reject(expected: str, *, actual: str = "", hint: str = "") -> NoReturn:
    """Reject a value; the message names its place, and shows the value itself if `actual` is empty."""
    kind = "expected"
    raise PydanticCustomError(kind, "{expected}", {"expected": expected, "got": actual, "hint": hint})


def _time(value: Any) -> ScenarioTime:
    try:
        return times.read(value, of="")
    except DefinitionError:
        reject(f"{A_TIME}, `-inf` or `+inf`")


def _parse_finite(value: Any) -> ScenarioTime:
    moment = _time(value) if isinstance(value, str) else None
    if moment is None or abs(moment.micros) == FOREVER:
        reject(A_TIME)
    return moment


def _duration(value: str) -> str:
    try:
        parse_duration(value, of="")
    except DefinitionError:
        reject(f"{A_DURATION} (millisecond, second, minute, hour, day), at most 36500 days")
    return value


def _number(value: Any) -> Number | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not -(10**DIGITS) < value < 10**DIGITS:
        reject(A_NUMBER)
    if not value:
        return 0  # of a zero neither sign nor digits matter
    exponent = Decimal(value).as_tuple().exponent
    if not isinstance(exponent, int) or exponent < -SCALE:
        reject(A_NUMBER)
    return value


def _key(value: Any) -> str | int | None:
    if isinstance(value, bool) or not isinstance(value, str | int | None):
        reject(A_KEY)
    if isinstance(value, str) and not _is_text(value):
        reject("text of whole characters")
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
