"""Sample variance and standard deviation, from count, sum and sum of squares.

For integers and decimals the state is exact: whole numbers in units of the type's last digit. The finish does not
suffer from cancellation either: it sums squared distances from the whole number nearest to the mean, and the correction
for the remainder is less than half of the result. For doubles the state is exact except for the rounding of each
square, which does not depend on the order; the finish has an error of a few units in the last place of the mean square,
the same on every path.
"""

from dataclasses import dataclass

from cutover.definition.measures import doubles
from cutover.definition.measures.states import Finish, StateColumn, is_float, parse_scale

SQUARABLE_DIGITS = 14
"""Maximum digits of a value so that the squares of 10^10 records fit into decimal(38)."""

FLOAT_RELATIVE = 1e-6
"""Tolerance of a variance of doubles if only results are compared; valid for a mean up to 10^4 standard deviations."""


@dataclass(frozen=True, slots=True)
class Variance:
    """Sample variance (divided by n - 1) without nulls; null for fewer than two values."""

    expression: str

    def states(self, name: str, value_type: str | None) -> tuple[StateColumn, ...]:
        """Return `<name>__count`, `<name>__sum`, `<name>__squares`: in units of the last digit; digits for doubles."""
        count = StateColumn(column=f"{name}__count", type="bigint", create=f"count({self.expression})", merge="sum")
        if is_float(value_type):
            squares = f"({self.expression} * {self.expression})"
            total = doubles.make_state(f"{name}__sum", self.expression)
            return (count, total, doubles.make_state(f"{name}__squares", squares))
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
        if is_float(value_type):
            difference = f"{doubles.total_sql(squares)} - pow({doubles.total_sql(total)}, 2) / nullif({n}, 0)"
            deviations = f"greatest({difference}, 0.0)"
        else:
            columns = (f"cast({column} as hugeint)" for column in (n, total, squares))
            deviations = _squared_deviations_sql(*columns)
        scale = f"1e{2 * parse_scale(value_type)}"
        return Finish(sql=f"({deviations}) / nullif(greatest({n} - 1, 0), 0) / {scale}", type="double")

    def tolerance(self, value_type: str | None, *, same_definition: bool) -> float | None:
        """Return None, except for doubles against a team's SQL, which sums them in an arbitrary order."""
        return FLOAT_RELATIVE if is_float(value_type) and not same_definition else None

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
