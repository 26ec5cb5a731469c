"""One field of a record: from what stands in the JSON to a value of its type, or a refusal."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Context, Decimal
from functools import cache
from typing import Any

from cutover.definition.model.times import UNITS, parse_iso_micros
from cutover.definition.model.topic import parse_decimal_type
from cutover.records.parsing import limits

FIRST_DATE, AFTER_LAST_DATE = date(1000, 1, 1), date(9000, 1, 1)
DIGITS = 38
EXACT = Context(prec=76)
_HALF_PAIR = re.compile("[\ud800-\udfff]")
RANGES = {"int": 2**31, "bigint": 2**63}


@dataclass(frozen=True, slots=True)
class Pairs:
    """A JSON object, doubled names kept."""

    items: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Number:
    """A JSON number as it was written."""

    text: str

    @property
    def is_whole(self) -> bool:
        """Return whether it has neither fraction nor exponent."""
        return not set(self.text) & set(".eE")


class UnfitError(Exception):
    """A field that its type does not take; `right_kind`: JSON's kind was the right one, the value was not."""

    def __init__(self, *, right_kind: bool = False) -> None:
        super().__init__("right kind, wrong value" if right_kind else "wrong kind")
        self.right_kind = right_kind


def value_of(given: Any, kind: str, time_format: str) -> Any:
    """Return the value of a field; None for null.

    Args:
        given: As parsed: None, bool, str, Number, Pairs or list.
        kind: A type of the schema.
        time_format: How timestamps are written.

    Returns:
        bool, int, float, Decimal, str or date; a timestamp in microseconds since 1970.

    Raises:
        UnfitError: The type does not take it.
    """
    if given is None:
        return None
    if kind in _READ:
        return _READ[kind](given)
    if kind == "timestamp":
        return _iso(_text(given)) if time_format == "iso" else _moment(_read_whole(given, "bigint"), UNITS[time_format])
    return _decimal(given, kind)


def check_kind(given: Any, kind: str, time_format: str) -> None:
    """Check a value that another one of the same name follows: it does not count, but must not be of a wrong kind.

    That holds for booleans and numbers but decimals; of the other types only the last value is looked at.

    Raises:
        UnfitError: It is.
    """
    if given is None or kind in {"string", "date"} or parse_decimal_type(kind) is not None:
        return
    if kind == "timestamp":
        if time_format != "iso":
            _read_whole(given, "bigint")
    elif kind == "double":
        if not isinstance(given, Number):
            raise UnfitError
    else:
        _READ[kind](given)


def _boolean(given: Any) -> bool:
    if not isinstance(given, bool):
        raise UnfitError
    return given


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise UnfitError
    if not given.isascii() and _HALF_PAIR.search(given):  # half a surrogate pair is no character
        raise UnfitError
    return given


def _read_whole(given: Any, kind: str) -> int:
    if not isinstance(given, Number) or not given.is_whole:
        raise UnfitError
    number = int(given.text)
    if not -RANGES[kind] <= number < RANGES[kind]:
        raise UnfitError
    return number


def _double(given: Any) -> float:
    if not isinstance(given, Number) or not math.isfinite(float(given.text)):
        raise UnfitError
    return float(given.text) + 0.0  # minus zero is zero


def _decimal(given: Any, kind: str) -> Decimal:
    if not isinstance(given, Number) or "e" in given.text.lower():
        raise UnfitError
    precision, scale = parse_decimal_type(kind) or (0, 0)
    number = Decimal(given.text)
    if len(number.as_tuple().digits) > DIGITS or -int(number.as_tuple().exponent) > DIGITS:
        raise UnfitError
    if not _compile_decimal(precision, scale).fullmatch(given.text):
        raise UnfitError
    return EXACT.add(number.quantize(Decimal(1).scaleb(-scale), context=EXACT), Decimal(0))  # minus zero is zero


@cache
def _compile_decimal(precision: int, scale: int) -> re.Pattern[str]:
    return re.compile(limits.decimal_pattern(precision, scale))


def _moment(number: int, unit: int) -> int:
    return _in_range(number * unit)


def _in_range(micros: int) -> int:
    if not limits.MIN_MICROS <= micros <= limits.MAX_MICROS:
        raise UnfitError(right_kind=True)
    return micros


def _iso(text: str) -> int:
    try:
        return parse_iso_micros(text)
    except ValueError:
        raise UnfitError(right_kind=True) from None


def _date(given: Any) -> date:
    text = _text(given)
    try:
        found = date.fromisoformat(text) if re.fullmatch(limits.ISO_DATE, text) else None
    except ValueError:
        found = None
    if found is None or not FIRST_DATE <= found < AFTER_LAST_DATE:
        raise UnfitError
    return found


_READ: dict[str, Callable[[Any], Any]] = {
    "boolean": _boolean,
    "int": lambda given: _read_whole(given, "int"),
    "bigint": lambda given: _read_whole(given, "bigint"),
    "double": _double,
    "string": _text,
    "date": _date,
}
