"""Checks of one measure: what it looks at, and its parameters."""

from typing import NoReturn, get_args

from cutover.definition.measures import Avg, Measure, Sum
from cutover.definition.schema import decimal_parts
from cutover.definition.spread import DIGITS as SQUARABLE_DIGITS
from cutover.definition.spread import Variance
from cutover.errors import DefinitionError

NAMES = ", ".join(kind.__name__ for kind in get_args(Measure))
SUMMABLE_DIGITS = 28
"""Digits of a decimal whose sum of 10^10 records still fits into decimal(38)."""


def refuse(field: str, expected: str, got: str, hint: str = "") -> NoReturn:
    """Refuse what stands in a field.

    Raises:
        DefinitionError: Always.
    """
    msg = f"{field}: expected {expected}, got {got}." + (f"\nHint: {hint}" if hint else "")
    raise DefinitionError(msg)


def check(field: str, measure: Measure, kind: str | None) -> None:
    """Refuse a measure that cannot be computed.

    Args:
        field: Where it stands.
        measure: The measure.
        kind: Type of its expression; None of a count.

    Raises:
        DefinitionError: The type of what it looks at, or a parameter, does not fit.
    """
    if isinstance(measure, Sum | Avg):
        _summable(field, str(measure.expression), kind or "bigint")
    elif isinstance(measure, Variance):
        _squarable(field, measure.expression, kind or "bigint")


def _summable(field: str, expression: str, kind: str) -> None:
    digits = decimal_parts(kind)
    if kind not in {"int", "bigint", "double"} and digits is None:
        refuse(field, "a number to add up", f"{kind}: `{expression}`")
    if digits is not None and digits[0] > SUMMABLE_DIGITS:
        refuse(field, f"a decimal of at most {SUMMABLE_DIGITS} digits", kind, "a sum could overflow; CAST it")


def _squarable(field: str, expression: str, kind: str) -> None:
    digits = decimal_parts(kind)
    if kind in {"int", "double"} or (digits is not None and digits[0] <= SQUARABLE_DIGITS):
        return
    cast = f"CAST({expression} AS decimal({SQUARABLE_DIGITS},0)) makes records with larger numbers malformed"
    expected = f"an int, a double or a decimal of at most {SQUARABLE_DIGITS} digits, whose squares add up exactly"
    refuse(field, expected, f"{kind}: `{expression}`", cast)
