"""What is measured: values that merge, so that partial aggregates of any split fold to the same result.

A measure is a handful of state columns, each with a Spark aggregate that makes it and a merge that every engine has
(sum, min or max). A measure that cannot be written so does not merge and does not exist here.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

Merge = Literal["sum", "min", "max"]


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One column of a partial aggregate."""

    column: str
    type: str  # Spark's name of it: bigint, decimal(38,0), double, ...
    create: str  # Spark SQL aggregate over the parsed columns
    merge: Merge


@dataclass(frozen=True, slots=True)
class Count:
    """Number of records. Exact."""

    @property
    def expression(self) -> None:
        """Return None: a count looks at no column."""

    def states(self, name: str, value_type: str | None) -> tuple[State, ...]:  # noqa: ARG002 -- every measure's signature
        """Return one bigint."""
        return (State(column=name, type="bigint", create="count(1)", merge="sum"),)

    def finish(self, name: str) -> str | None:  # noqa: ARG002 -- every measure's signature
        """Return None: the state is the result."""
        return None


@dataclass(frozen=True, slots=True)
class Sum:
    """Sum of an expression, nulls left out; null when all are. Integers and decimals exact, doubles nearly."""

    expression: str

    def states(self, name: str, value_type: str | None) -> tuple[State, ...]:
        """Return one column: decimal(38,0) of integers, decimal(38,s) of decimal(p,s), double of doubles."""
        kind = sum_type(value_type)
        return (State(column=name, type=kind, create=f"sum(cast({self.expression} as {kind}))", merge="sum"),)

    def finish(self, name: str) -> str | None:  # noqa: ARG002 -- every measure's signature
        """Return None: the state is the result."""
        return None


@dataclass(frozen=True, slots=True)
class Min:
    """Smallest value of an expression, nulls left out. Exact."""

    expression: str
    function: ClassVar[Merge] = "min"

    def states(self, name: str, value_type: str | None) -> tuple[State, ...]:
        """Return one column of the expression's own type."""
        create = f"{self.function}({self.expression})"
        return (State(column=name, type=value_type or "string", create=create, merge=self.function),)

    def finish(self, name: str) -> str | None:  # noqa: ARG002 -- every measure's signature
        """Return None: the state is the result."""
        return None


@dataclass(frozen=True, slots=True)
class Max(Min):
    """Largest value of an expression, nulls left out. Exact."""

    function: ClassVar[Merge] = "max"


@dataclass(frozen=True, slots=True)
class Avg:
    """Mean of an expression, as sum and count: exact in its state, a double once finished."""

    expression: str

    def states(self, name: str, value_type: str | None) -> tuple[State, ...]:
        """Return `<name>__sum` (typed as `Sum`) and `<name>__count` (bigint)."""
        kind = sum_type(value_type)
        create = f"sum(cast({self.expression} as {kind}))"
        return (
            State(column=f"{name}__sum", type=kind, create=create, merge="sum"),
            State(column=f"{name}__count", type="bigint", create=f"count({self.expression})", merge="sum"),
        )

    def finish(self, name: str) -> str | None:
        """Return the division, in SQL that Spark and DuckDB read alike; null where nothing was counted."""
        return f"cast({name}__sum as double) / nullif({name}__count, 0)"


Measure = Count | Sum | Min | Max | Avg


def sum_type(value_type: str | None) -> str:
    """Return the type in which values of a type are summed."""
    kind = value_type or "bigint"
    if kind in {"float", "double"}:
        return "double"
    scale = kind.removesuffix(")").split(",")[1].strip() if kind.startswith("decimal") and "," in kind else "0"
    return f"decimal(38,{scale})"
