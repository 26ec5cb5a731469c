"""Sums of doubles that no order of their records changes: each double is cut into digits, and digits add up exactly.

A double is a whole number of digits of 30 binary places, between 2^-180 and 2^180; each digit has a bigint of its own,
so a sum is 12 of them. Whole numbers add up to the same in any order and any split, also where values cancel or are of
very different size. What lies below 2^-180 (6.5e-55) is rounded off value by value, which no order changes either. A
value beyond what the highest digit holds fails on its record (`malformed`, reason `expression`), on every path: a sum
never becomes infinite.

Source:
    Demmel, Nguyen, Parallel Reproducible Summation, IEEE Transactions on Computers 64(7), 2015 (digits by fixed bins).
"""

from collections.abc import Iterable
from fractions import Fraction

from cutover.definition.measures.states import StateColumn

PLACES = 30
"""Binary places of a digit: 2^34 records add up in a bigint, whatever they are."""

DIGITS = 12
LOWEST = -180
"""The power of two of the lowest digit."""

SUMMED = 2.0**179
"""A value that is summed is smaller in magnitude: 7.6e53."""

SQUARED = 2.0**89
"""A value whose square is summed is smaller in magnitude: 6.1e26."""

TYPE = "struct<" + ",".join(f"d{digit}:bigint" for digit in range(DIGITS)) + ">"
NAMES = tuple(f"d{digit}" for digit in range(DIGITS))

_ENOUGH = 2**94
"""Once a total is that large the digits that are left change it by less than 2^-60 of itself."""


def state(column: str, value: str) -> StateColumn:
    """Return the state column of a sum: the sum of each digit; each null where there is no value.

    Args:
        column: Its name.
        value: Spark SQL, a double smaller in magnitude than `SUMMED`.
    """
    sums = (f"'{name}', sum({text})" for name, text in zip(NAMES, _digits(value), strict=True))
    return StateColumn(column=column, type=TYPE, create=f"named_struct({', '.join(sums)})", merge="digits")


def _digits(value: str) -> list[str]:
    """Return Spark SQL for each digit: the value in its units less the same in units of the next one, both rounded."""
    rounded = [f"rint({value} * {_power(-LOWEST - PLACES * place)})" for place in range(DIGITS + 1)]
    return [f"CAST({rounded[d]} - {rounded[d + 1]} * {_power(PLACES)} AS bigint)" for d in range(DIGITS)]


def weighted_aggregate(value: str, weight: str) -> str:
    """Return DuckDB's aggregate of the state of values, each of them so many times.

    Args:
        value: DuckDB's SQL, a double; null, or smaller in magnitude than `SUMMED`.
        weight: DuckDB's SQL, a bigint.
    """
    rounded = [f"round_even({value} * {_power(-LOWEST - PLACES * place)}, 0)" for place in range(DIGITS + 1)]
    digits = (f"CAST({rounded[d]} - {rounded[d + 1]} * {_power(PLACES)} AS HUGEINT)" for d in range(DIGITS))
    return _struct(f"CAST(sum({digit} * {weight}) AS BIGINT)" for digit in digits)


def merge_aggregate(column: str) -> str:
    """Add up digits place by place, in DuckDB's SQL: any order gives the same."""
    return _struct(f"CAST(sum(struct_extract({column}, '{name}')) AS BIGINT)" for name in NAMES)


def _struct(values: Iterable[str]) -> str:
    return "{" + ", ".join(f"'{name}': {value}" for name, value in zip(NAMES, values, strict=True)) + "}"


def total(column: str) -> str:
    """Return the double that a state stands for, in DuckDB's SQL; null without a value.

    From the highest digit down, exactly, until what is left no longer matters: at most one unit in the last place off.
    """
    entries = ", ".join(
        f"{{'sum': struct_extract({column}, '{name}')::HUGEINT, 'place': {LOWEST + PLACES * digit}}}"
        for digit, name in reversed(list(enumerate(NAMES)))
    )
    more = f"{{'sum': __a['sum'] * {2**PLACES} + __x['sum'], 'place': __x['place']}}"
    step = f"CASE WHEN abs(__a['sum']) < {_ENOUGH}::HUGEINT THEN {more} ELSE __a END"
    reached = f"list_reduce([{entries}], lambda __a, __x: {step})"
    value = f"list_transform([{reached}], lambda __t: CAST(__t['sum'] AS DOUBLE) * pow(2.0::DOUBLE, __t['place']))[1]"
    return f"CASE WHEN struct_extract({column}, '{NAMES[0]}') IS NOT NULL THEN {value} END"


def exact(value: float) -> int:
    """Scale a double to an integer, in units of 2^-180; half a unit goes to the even one, as with `rint`."""
    return round(Fraction(value) / Fraction(2) ** LOWEST)  # of two that are as near the even one, as `rint` has it


def nearest(units: int) -> float:
    """Return the double nearest to a sum of `exact` values."""
    return float(units * Fraction(2) ** LOWEST)


def _power(exponent: int) -> str:
    return f"CAST('{2.0**exponent!r}' AS double)"
