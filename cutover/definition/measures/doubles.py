"""Reproducible sums of doubles, and the variance and standard deviation of samples that are computed from sums.

A double is represented by 12 digits of 30 bits each, from 2^-180 to 2^180, and the sum of each digit is a bigint, so
sums are exact in any order. Sums of whole numbers are equal for any order and any split, even if values cancel or
differ widely in size. Anything below 2^-180 (6.5e-55) is rounded per value, which does not depend on the order. A value
too large for the highest digit fails on its record (`malformed`, reason `expression`) on every path: a sum never
becomes infinite.

The state of a variance is count, sum and sum of squares. For integers and decimals it is exact: whole numbers in units
of the type's last digit. The finish does not suffer from cancellation either: it sums squared distances from the whole
number nearest to the mean, and the correction for the remainder is less than half of the result. For doubles the state
is exact except for the rounding of each square, which does not depend on the order; the finish has an error of a few
units in the last place of the mean square, the same on every path.

Source:
    Demmel, Nguyen, Parallel Reproducible Summation, IEEE Transactions on Computers 64(7), 2015 (digits by fixed bins).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from cutover.definition.measures.states import Finish, StateColumn, is_float_type, parse_scale

PLACES = 30
"""Bits of a digit: the sum of any 2^34 records fits into a bigint."""

DIGITS = 12
LOWEST = -180
"""Exponent (of two) of the lowest digit."""

SUM_LIMIT = 2.0**179
"""Exclusive limit of the magnitude of a value that is summed: 7.6e53."""

SQUARE_LIMIT = 2.0**89
"""Exclusive limit of the magnitude of a value whose square is summed: 6.1e26."""

TYPE = "struct<" + ",".join(f"d{digit}:bigint" for digit in range(DIGITS)) + ">"
DIGIT_NAMES = tuple(f"d{digit}" for digit in range(DIGITS))

_ENOUGH = 2**94
"""Total from which the remaining digits change it by less than 2^-60 of itself."""

SQUARABLE_DIGITS = 14
"""Maximum digits of a value so that the squares of 10^10 records fit into decimal(38)."""

FLOAT_RELATIVE = 1e-6
"""Tolerance of a variance of doubles if only results are compared; valid for a mean up to 10^4 standard deviations."""


def make_state(column: str, value: str) -> StateColumn:
    """Make the state column of a sum: a struct with the sum of each digit; all are null if there is no value.

    Args:
        column: Name of the column.
        value: Spark SQL, a double smaller in magnitude than `SUM_LIMIT`.
    """
    sums = (f"'{name}', sum({text})" for name, text in zip(DIGIT_NAMES, _digits_sql(value), strict=True))
    return StateColumn(column=column, type=TYPE, create=f"named_struct({', '.join(sums)})", merge="digits")


def _digits_sql(value: str) -> list[str]:
    """Return Spark SQL for each digit: the value rounded to its unit, minus the value rounded to the next digit's."""
    rounded = [f"rint({value} * {_power_sql(-LOWEST - PLACES * place)})" for place in range(DIGITS + 1)]
    return [f"CAST({rounded[d]} - {rounded[d + 1]} * {_power_sql(PLACES)} AS bigint)" for d in range(DIGITS)]


def weighted_sum_sql(value: str, weight: str) -> str:
    """Return the DuckDB aggregate of the state of values, each of which counts `weight` times.

    Args:
        value: DuckDB SQL, a double; null, or smaller in magnitude than `SUM_LIMIT`.
        weight: DuckDB SQL, a bigint.
    """
    rounded = [f"round_even({value} * {_power_sql(-LOWEST - PLACES * place)}, 0)" for place in range(DIGITS + 1)]
    digits = (f"CAST({rounded[d]} - {rounded[d + 1]} * {_power_sql(PLACES)} AS HUGEINT)" for d in range(DIGITS))
    return _struct_sql(f"CAST(sum({digit} * {weight}) AS BIGINT)" for digit in digits)


def merge_digits_sql(column: str) -> str:
    """Return the DuckDB aggregate that merges states: the sum of each digit, which is the same in any order."""
    return _struct_sql(f"CAST(sum(struct_extract({column}, '{name}')) AS BIGINT)" for name in DIGIT_NAMES)


def _struct_sql(values: Iterable[str]) -> str:
    return "{" + ", ".join(f"'{name}': {value}" for name, value in zip(DIGIT_NAMES, values, strict=True)) + "}"


def total_sql(column: str) -> str:
    """Return DuckDB SQL for the double that a state represents; null without a value.

    Digits are added exactly, from the highest one, until the remaining ones no longer matter: the error is at most one
    unit in the last place.
    """
    entries = ", ".join(
        f"{{'sum': struct_extract({column}, '{name}')::HUGEINT, 'place': {LOWEST + PLACES * digit}}}"
        for digit, name in reversed(list(enumerate(DIGIT_NAMES)))
    )
    added = f"{{'sum': __a['sum'] * {2**PLACES} + __x['sum'], 'place': __x['place']}}"
    step = f"CASE WHEN abs(__a['sum']) < {_ENOUGH}::HUGEINT THEN {added} ELSE __a END"
    result = f"list_reduce([{entries}], lambda __a, __x: {step})"
    value = f"list_transform([{result}], lambda __t: CAST(__t['sum'] AS DOUBLE) * pow(2.0::DOUBLE, __t['place']))[1]"
    return f"CASE WHEN struct_extract({column}, '{DIGIT_NAMES[0]}') IS NOT NULL THEN {value} END"


def to_units(value: float) -> int:
    """Convert a double to a whole number of units of 2^-180; halves are rounded to even, as by `rint`."""
    return round(Fraction(value) / Fraction(2) ** LOWEST)


def from_units(units: int) -> float:
    """Return the double nearest to a number of units."""
    return float(units * Fraction(2) ** LOWEST)


def _power_sql(exponent: int) -> str:
    return f"CAST('{2.0**exponent!r}' AS double)"


@dataclass(frozen=True, slots=True)
class Variance:
    """Sample variance (divided by n - 1) without nulls; null for fewer than two values."""

    expression: str

    def states(self, name: str, value_type: str | None) -> tuple[StateColumn, ...]:
        """Return `<name>__count`, `<name>__sum`, `<name>__squares`: in units of the last digit; digits for doubles."""
        count = StateColumn(column=f"{name}__count", type="bigint", create=f"count({self.expression})", merge="sum")
        if is_float_type(value_type):
            squares = f"({self.expression} * {self.expression})"
            total = make_state(f"{name}__sum", self.expression)
            return (count, total, make_state(f"{name}__squares", squares))
        kind, value = "decimal(38,0)", self._units_sql(value_type)
        return (
            count,
            StateColumn(column=f"{name}__sum", type=kind, create=f"sum(cast({value} as {kind}))", merge="sum"),
            StateColumn(
                column=f"{name}__squares", type=kind, create=f"sum(cast({value} * {value} as {kind}))", merge="sum"
            ),
        )

    def finish(self, name: str, value_type: str | None) -> Finish:
        """Return the sample variance (n - 1), a double; null for fewer than two values."""
        n, total, squares = f"{name}__count", f"{name}__sum", f"{name}__squares"
        if is_float_type(value_type):
            difference = f"{total_sql(squares)} - pow({total_sql(total)}, 2) / nullif({n}, 0)"
            deviations = f"greatest({difference}, 0.0)"
        else:
            columns = (f"cast({column} as hugeint)" for column in (n, total, squares))
            deviations = _squared_deviations_sql(*columns)
        scale = f"1e{2 * parse_scale(value_type)}"
        return Finish(sql=f"({deviations}) / nullif(greatest({n} - 1, 0), 0) / {scale}", type="double")

    def tolerance(self, value_type: str | None, *, same_definition: bool) -> float | None:
        """Return None, except for doubles against a team's SQL, which sums them in an arbitrary order."""
        return FLOAT_RELATIVE if is_float_type(value_type) and not same_definition else None

    def _units_sql(self, value_type: str | None) -> str:
        scale = parse_scale(value_type)
        return (
            f"cast(({self.expression}) * cast({10**scale} as decimal({scale + 1},0)) as decimal({SQUARABLE_DIGITS},0))"
        )


@dataclass(frozen=True, slots=True)
class Stddev(Variance):
    """Sample standard deviation: the square root of `Variance`."""

    def finish(self, name: str, value_type: str | None) -> Finish:
        """Return the square root of the sample variance, a double; null for fewer than two values."""
        return Finish(sql=f"sqrt({Variance.finish(self, name, value_type).sql})", type="double")


def _squared_deviations_sql(n: str, total: str, squares: str) -> str:
    """Return the sum of squared distances from the mean, computed in hugeints until the last step.

    With a = round(total / n) and r = total - a n, the sum of squared distances from a is squares - a (total + r),
    exactly, and at least |r|; the correction r^2 / n is at most |r| / 2.
    """
    center = f"((2 * {total} + sign({total}) * {n}) // (2 * {n}))"
    remainder = f"({total} - {center} * {n})"
    from_center = f"cast({squares} - {center} * ({total} + {remainder}) as double)"
    return f"{from_center} - cast({remainder} as double) * {remainder} / {n}"
