"""Variance in plain Python, with exact fractions and, for doubles, a bound on the rounding error."""

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Self

from cutover.definition.measures import doubles

ROUNDING = Fraction(1, 2**48)
"""Relative error of the mean square in a variance of doubles, since the squares and both sums are rounded."""

LOWEST_DIGIT = Fraction(2) ** doubles.LOWEST
"""Lowest binary digit of a value or a square that a sum of doubles includes."""


class ApproximateFloat(float):
    """Float with an error bound: numbers that differ by at most the bound are considered equal."""

    max_error: float

    def __new__(cls, value: float, max_error: float) -> Self:
        """Create a float with the maximum distance from the exact value."""
        number = super().__new__(cls, value)
        number.max_error = max_error
        return number


def variance(values: Sequence[int | float | Decimal]) -> float | None:
    """Return the sample variance (n - 1), with an error bound for doubles; None for fewer than two values."""
    fraction = _variance(values)
    if fraction is None or not isinstance(values[0], float):
        return None if fraction is None else float(fraction)
    return ApproximateFloat(_double(fraction), _double(_bound_error(values)))


def stddev(values: Sequence[int | float | Decimal]) -> float | None:
    """Return the sample standard deviation (n - 1), with an error bound for doubles; None for fewer than two values."""
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
    """Return the nearest double; infinity on overflow, where sums of squares are infinite too."""
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
    """Bound the error of a path: squares and sums are rounded, and each value is truncated at the lowest digit."""
    exact = [Fraction(value) for value in values]
    squares, total = sum((value**2 for value in exact), start=Fraction(0)), abs(sum(exact, start=Fraction(0)))
    return (ROUNDING * squares + LOWEST_DIGIT * (len(exact) + total)) / (len(exact) - 1)
