"""What is measured: values that merge, so that partial aggregates of any split fold to the same result.

A measure is a handful of state columns, each with a Spark aggregate that makes it and a merge that DuckDB has
(`states`). A measure that cannot be written so does not merge and does not exist here.

`states` and `finish` are given the measure's name and the type of its expression; `tolerance` too: the relative
tolerance of the result between two paths, which are of the `same` definition (their states are compared as well) or
not, and None where its type alone decides (of the same definition exactly, against a team's SQL doubles nearly).
"""

from dataclasses import dataclass
from typing import ClassVar, get_args

from cutover.definition.measures import doubles
from cutover.definition.measures.bag import Bag
from cutover.definition.measures.counted import Quantile, TopK
from cutover.definition.measures.distinct import ApproxDistinct
from cutover.definition.measures.places import First, Last
from cutover.definition.measures.spread import Stddev, Variance
from cutover.definition.measures.states import Finish, Merge, StateColumn, is_float, sum_type


@dataclass(frozen=True, slots=True)
class Count:
    """Number of records. Exact."""

    @property
    def expression(self) -> None:
        """Return None: a count looks at no column."""

    def states(self, name: str, value_type: str | None) -> tuple[StateColumn, ...]:  # noqa: ARG002 -- every measure's signature
        """One bigint, named as the measure."""
        return (StateColumn(column=name, type="bigint", create="count(1)", merge="sum"),)

    def finish(self, name: str, value_type: str | None) -> Finish | None:  # noqa: ARG002 -- every measure's signature
        """Return None: the state is the result."""
        return None

    def tolerance(self, value_type: str | None, *, same: bool) -> float | None:  # noqa: ARG002 -- every measure's signature
        """None: compared as its type is."""
        return None


@dataclass(frozen=True, slots=True)
class Sum:
    """Sum of an expression, nulls left out; null when all are. Exact; of doubles the nearest double."""

    expression: str

    def states(self, name: str, value_type: str | None) -> tuple[StateColumn, ...]:
        """Return one column: decimal(38,0) of integers, decimal(38,s) of decimal(p,s); of doubles `<name>__digits`."""
        return (_make_sum_state(name, f"{name}__digits", self.expression, value_type),)

    def finish(self, name: str, value_type: str | None) -> Finish | None:
        """Return None, as the state is the result; of doubles what its digits stand for."""
        return Finish(sql=doubles.total(f"{name}__digits"), type="double") if is_float(value_type) else None

    def tolerance(self, value_type: str | None, *, same: bool) -> float | None:  # noqa: ARG002 -- every measure's signature
        """None: compared as its type is."""
        return None


@dataclass(frozen=True, slots=True)
class Min:
    """Smallest value of an expression, nulls left out. Exact."""

    expression: str
    function: ClassVar[Merge] = "min"

    def states(self, name: str, value_type: str | None) -> tuple[StateColumn, ...]:
        """Return one column of the expression's own type."""
        create = f"{self.function}({self.expression})"
        return (StateColumn(column=name, type=value_type or "string", create=create, merge=self.function),)

    def finish(self, name: str, value_type: str | None) -> Finish | None:  # noqa: ARG002 -- every measure's signature
        """Return None: the state is the result."""
        return None

    def tolerance(self, value_type: str | None, *, same: bool) -> float | None:  # noqa: ARG002 -- every measure's signature
        """None: compared as its type is."""
        return None


@dataclass(frozen=True, slots=True)
class Max(Min):
    """Largest value of an expression, nulls left out. Exact."""

    function: ClassVar[Merge] = "max"


@dataclass(frozen=True, slots=True)
class Avg:
    """Mean of an expression, as sum and count: exact in its state, a double once finished."""

    expression: str

    def states(self, name: str, value_type: str | None) -> tuple[StateColumn, ...]:
        """Return `<name>__sum` (typed as `Sum`; of doubles `<name>__digits`) and `<name>__count` (bigint)."""
        count = StateColumn(column=f"{name}__count", type="bigint", create=f"count({self.expression})", merge="sum")
        return (_make_sum_state(f"{name}__sum", f"{name}__digits", self.expression, value_type), count)

    def finish(self, name: str, value_type: str | None) -> Finish | None:
        """Return the division; null where nothing was counted."""
        total = doubles.total(f"{name}__digits") if is_float(value_type) else f"cast({name}__sum as double)"
        return Finish(sql=f"({total}) / nullif({name}__count, 0)", type="double")

    def tolerance(self, value_type: str | None, *, same: bool) -> float | None:  # noqa: ARG002 -- every measure's signature
        """Return None: a double is compared as doubles are."""
        return None


def _make_sum_state(exact: str, digits: str, expression: str, value_type: str | None) -> StateColumn:
    """Column `exact` adds numbers up as they are; of doubles `digits` does."""
    if is_float(value_type):
        return doubles.state(digits, expression)
    kind = sum_type(value_type)
    return StateColumn(column=exact, type=kind, create=f"sum(cast({expression} as {kind}))", merge="sum")


Measure = Count | Sum | Min | Max | Avg | Variance | Stddev | First | Last | TopK | Quantile | ApproxDistinct | Bag

NAMES = ", ".join(kind.__name__ for kind in get_args(Measure))
