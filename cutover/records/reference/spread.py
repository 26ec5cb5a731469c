"""Variance in plain Python: exact fractions, and of doubles how far rounding may lead."""

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Self

ROUNDING = Fraction(1, 2**48)
"""Of the mean square: by so much a variance of doubles may be off, since squares and both sums are rounded."""


class Near(float):
    """A number with a bound: what differs by less is the same."""

    bound: float

    def __new__(cls, value: float, bound: float) -> Self:
        """Return the number with its bound."""
        made = super().__new__(cls, value)
        made.bound = bound
        return made


def variance(values: Sequence[int | float | Decimal]) -> float | None:
    """Return the variance of a sample, None of fewer than two values; of doubles with its bound."""
    found = _variance(values)
    if found is None or not isinstance(values[0], float):
        return None if found is None else float(found)
    return Near(_double(found), _double(_bound(values)))


def stddev(values: Sequence[int | float | Decimal]) -> float | None:
    """Return the root of the variance."""
    found = _variance(values)
    if found is None or not isinstance(values[0], float):
        return None if found is None else math.sqrt(found)
    root, least = math.sqrt(_double(found)), math.sqrt(_double(max(found - _bound(values), Fraction(0))))
    return Near(root, math.inf if math.isinf(root) else root - least)


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


def _bound(values: Sequence[int | float | Decimal]) -> Fraction:
    return ROUNDING * sum((Fraction(value) ** 2 for value in values), start=Fraction(0)) / (len(values) - 1)
