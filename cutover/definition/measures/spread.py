"""Variance and standard deviation of a sample, as count, sum and sum of squares.

Over integers and decimals the state is exact: whole numbers in units of the type's last digit. The finish loses nothing
to cancellation either: squares are taken from the whole number next to the mean, and what that leaves out is less than
half of what remains. Over doubles the state is exact too but for the rounding of each square, which no order changes;
the finish is off by a few units in the last place of the mean square, the same on every path.
"""

from dataclasses import dataclass

from cutover.definition.measures import doubles
from cutover.definition.measures.states import Finish, StateColumn, is_float, scale_of

DIGITS = 14
"""Digits of a value whose squares of 10^10 records still fit into decimal(38)."""

FLOAT_RELATIVE = 1e-6
"""Of a variance of doubles, where only the result is there: good if the mean is up to 10^4 standard deviations."""


@dataclass(frozen=True, slots=True)
class Variance:
    """Variance of a sample (divided by n - 1), nulls left out; null of fewer than two values."""

    expression: str

    def states(self, name: str, value_type: str | None) -> tuple[StateColumn, ...]:
        """Return `<name>__count`, `<name>__sum`, `<name>__squares`: in units of the last digit, of doubles digits."""
        count = StateColumn(column=f"{name}__count", type="bigint", create=f"count({self.expression})", merge="sum")
        if is_float(value_type):
            squares = f"({self.expression} * {self.expression})"
            return (count, doubles.state(f"{name}__sum", self.expression), doubles.state(f"{name}__squares", squares))
        kind, value = "decimal(38,0)", self._units(value_type)
        return (
            count,
            StateColumn(column=f"{name}__sum", type=kind, create=f"sum(cast({value} as {kind}))", merge="sum"),
            StateColumn(
                column=f"{name}__squares", type=kind, create=f"sum(cast({value} * {value} as {kind}))", merge="sum"
            ),
        )

    def finish(self, name: str, value_type: str | None) -> Finish:
        """Sample variance (n - 1), a double; null of fewer than two values."""
        n, total, squares = f"{name}__count", f"{name}__sum", f"{name}__squares"
        if is_float(value_type):
            near = f"{doubles.total(squares)} - pow({doubles.total(total)}, 2) / nullif({n}, 0)"
            off = f"greatest({near}, 0.0)"
        else:
            off = _sum_squares_sql(f"cast({n} as hugeint)", f"cast({total} as hugeint)", f"cast({squares} as hugeint)")
        return Finish(sql=f"({off}) / nullif(greatest({n} - 1, 0), 0) / 1e{2 * scale_of(value_type)}", type="double")

    def tolerance(self, value_type: str | None, *, same: bool) -> float | None:
        """Return None but for doubles against a team's SQL, which adds them up in some order."""
        return FLOAT_RELATIVE if is_float(value_type) and not same else None

    def _units(self, value_type: str | None) -> str:
        scale = scale_of(value_type)
        return f"cast(({self.expression}) * cast({10**scale} as decimal({scale + 1},0)) as decimal({DIGITS},0))"


@dataclass(frozen=True, slots=True)
class Stddev(Variance):
    """Standard deviation of a sample: the root of `Variance`."""

    def finish(self, name: str, value_type: str | None) -> Finish:
        """Square root of the sample variance, a double; null of fewer than two values."""
        return Finish(sql=f"sqrt({Variance.finish(self, name, value_type).sql})", type="double")


def _sum_squares_sql(n: str, total: str, squares: str) -> str:
    """Return the sum of squared distances from the mean, in hugeints up to the last step.

    With a = round(total / n) and r = total - a n the squares from a are squares - a (total + r), exactly, and at least
    |r|; r^2 / n is at most |r| / 2.
    """
    near = f"((2 * {total} + sign({total}) * {n}) // (2 * {n}))"
    rest = f"({total} - {near} * {n})"
    return f"cast({squares} - {near} * ({total} + {rest}) as double) - cast({rest} as double) * {rest} / {n}"
