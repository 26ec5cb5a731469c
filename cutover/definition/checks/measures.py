"""Checks of a measure: the type of its input, and its parameters."""

import re
from typing import NoReturn

from cutover.definition.measures.doubles import SQUARABLE_DIGITS, Variance
from cutover.definition.measures.kinds import MILLION, ApproxDistinct, Avg, Bag, Measure, Quantile, Sum, TopK
from cutover.definition.model.topic import parse_decimal_type
from cutover.errors import DefinitionError

SUMMABLE_DIGITS = 28
"""Digits of a decimal whose sum of 10^10 records still fits into decimal(38)."""

MIN_ERROR = 1e-4
ROUNDING_TOLERANCE = 1e-6  # 0.1 * 10^6 need not be a whole number as a double

_USER = re.compile(r"://[^/\s'\"]*@")


def reject_field(field: str, expected: str, actual: str, hint: str = "") -> NoReturn:
    """Reject the value of a field; user and password of an address in it are not shown.

    Raises:
        DefinitionError: Always.
    """
    msg = f"{field}: expected {expected}, got {_USER.sub('://***@', actual)}." + (f"\nHint: {hint}" if hint else "")
    raise DefinitionError(msg)


def check_measure(field: str, measure: Measure, kind: str | None) -> None:
    """Reject a measure that cannot be computed.

    Args:
        field: Name of the field in messages.
        measure: The measure.
        kind: Type of its expression; None for a count.

    Raises:
        DefinitionError: The type of its input, or a parameter, is invalid.
    """
    if isinstance(measure, Sum | Avg):
        _check_summable(field, str(measure.expression), kind or "bigint")
    elif isinstance(measure, Variance):
        _check_square_fits(field, measure.expression, kind or "bigint")
    elif isinstance(measure, TopK):
        _check_equality(field, measure.expression, kind)
        _check_whole(f"{field}: k", measure.k, 1, 1_000)
    elif isinstance(measure, ApproxDistinct):
        _check_equality(field, measure.expression, kind)
        _check_whole(f"{field}: k", measure.k, 16, 65_536)
    elif isinstance(measure, Bag):
        _check_whole(f"{field}: most", measure.most, 1, 100_000)
    elif isinstance(measure, Quantile):
        _check_quantile(field, measure, kind or "bigint")


def _check_summable(field: str, expression: str, kind: str) -> None:
    digits = parse_decimal_type(kind)
    if kind not in {"int", "bigint", "double"} and digits is None:
        reject_field(field, "a number to add up", f"{kind}: `{expression}`")
    if digits is not None and digits[0] > SUMMABLE_DIGITS:
        reject_field(field, f"a decimal of at most {SUMMABLE_DIGITS} digits", kind, "a sum could overflow; CAST it")


def _check_square_fits(field: str, expression: str, kind: str) -> None:
    digits = parse_decimal_type(kind)
    if kind in {"int", "double"} or (digits is not None and digits[0] <= SQUARABLE_DIGITS):
        return
    cast = f"CAST({expression} AS decimal({SQUARABLE_DIGITS},0)) makes records with larger numbers malformed"
    expected = f"an int, a double or a decimal of at most {SQUARABLE_DIGITS} digits, whose squares add up exactly"
    reject_field(field, expected, f"{kind}: `{expression}`", cast)


def _check_equality(field: str, expression: str, kind: str | None) -> None:
    if kind == "double":
        reject_field(field, "a type with exact equality", f"double: `{expression}`", "CAST to decimal(p,s), or floor")


def _check_quantile(field: str, measure: Quantile, kind: str) -> None:
    if kind not in {"int", "bigint", "double"} and parse_decimal_type(kind) is None:
        reject_field(field, "a number", f"{kind}: `{measure.expression}`")
    _check_between(f"{field}: q", measure.q, 0, 1)
    _check_between(f"{field}: error", measure.error, MIN_ERROR, 0.5)
    if abs(measure.q * MILLION - round(measure.q * MILLION)) > ROUNDING_TOLERANCE:
        reject_field(f"{field}: q", "at most six digits after the point", repr(measure.q))


def _check_whole(field: str, value: int, low: int, high: int) -> None:
    if type(value) is not int or not low <= value <= high:
        reject_field(field, f"a whole number from {low} to {high}", repr(value))


def _check_between(field: str, value: float, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        reject_field(field, f"a number from {low} to {high}", repr(value))
