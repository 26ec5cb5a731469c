"""Variance in plain Python: exact fractions, and of doubles how far rounding may lead."""

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Self

from cutover.definition.measures import doubles

ROUNDING = Fraction(1, 2**48)
"""Of the mean square: by so much a variance of doubles may be off, since squares and both sums are rounded."""

LOWEST_DIGIT = Fraction(2) ** doubles.LOWEST
"""What a sum of doubles holds of a value or a square ends here."""


class ApproximateFloat(float):
    """A number with a bound: what differs by less is the same."""

    max_error: float

    def __new__(cls, value: float, max_error: float) -> Self:
        """Make a float that knows how far it may lie from the true value."""
        number = super().__new__(cls, value)
        number.max_error = max_error
        return number


def variance(values: Sequence[int | float | Decimal]) -> float | None:
    """Return the variance of a sample, None of fewer than two values; of doubles with its bound."""
    fraction = _variance(values)
    if fraction is None or not isinstance(values[0], float):
        return None if fraction is None else float(fraction)
    return ApproximateFloat(_double(fraction), _double(_bound_error(values)))


def stddev(values: Sequence[int | float | Decimal]) -> float | None:
    """Sample standard deviation (n - 1); of doubles with the bound of its error, None of fewer than two values."""
    fraction = _variance(values)
    if fraction is None or not isinstance(values[0], float):
        return None if fraction is None else math.sqrt(fraction)
    max_error = _bound_error(values)
    root, lowest, highest = (
        math.sqrt(_double(square))
        for square in (fraction, max(fraction - max_error, Fraction(0)), fraction + max_error)
    )
    return ApproximateFloat(root, math.inf if math.isinf(highest) else max(root - lowest, highest - root))


def _double(exact: Fraction) -> float:
    """Return the nearest double; infinity beyond the last one, where sums of squares are infinite too."""
    try:
        return float(exact)
    except OverflowError:
        return math.inf


def _variance(values: Sequence[int | float | Decimal]) -> Fraction | None:
    if len(values) < 2:  # noqa: PLR2004 -- one value has no spread
        return None
    exact = [Fraction(value) for value in values]
    mean = sum(exact, start=Fraction(0)) / len(exact)
    return sum(((value - mean) ** 2 for value in exact), start=Fraction(0)) / (len(exact) - 1)


def _bound_error(values: Sequence[int | float | Decimal]) -> Fraction:
    """Return by how much a path may be off: rounded squares and sums, and each value cut at the lowest digit."""
    exact = [Fraction(value) for value in values]
    squares, total = sum((value**2 for value in exact), start=Fraction(0)), abs(sum(exact, start=Fraction(0)))
    return (ROUNDING * squares + LOWEST_DIGIT * (len(exact) + total)) / (len(exact) - 1)
