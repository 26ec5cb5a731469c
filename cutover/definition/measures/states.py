"""State columns: what of a measure is kept, how Spark makes it and how any split of it merges."""

from dataclasses import dataclass
from typing import Literal

Merge = Literal["sum", "min", "max", "digits", "counts", "smallest", "earliest"]
"""Of numbers and structs: sum, min, max; `digits` adds up each field of a struct. Of lists: `counts` adds
up the counts of (value, count) by value, `smallest` keeps so many of the smallest different values, `earliest` so many
of the smallest values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateColumn:
    """One column of a partial aggregate."""

    column: str
    type: str  # Spark's name of it: bigint, decimal(38,0), double, ...
    create: str  # Spark SQL aggregate over the parsed columns
    merge: Merge
    most: int = 0  # entries that a list of `smallest` or `earliest` keeps

    @property
    def of_nothing(self) -> int | None:
        """Return what it is of no rows: 0 of what counts, null of all else."""
        return 0 if self.create.startswith("count(") else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """How a result is made of merged state columns."""

    sql: str  # DuckDB's, over the state columns
    type: str  # Spark's name of the result's type


def sum_type(value_type: str | None) -> str:
    """Take 38 digits, with as many behind the point as the values have."""
    return f"decimal(38,{scale_of(value_type or 'bigint')})"


def is_float(kind: str | None) -> bool:
    """Return whether sums of a type are made of digits (`doubles`)."""
    return kind in {"float", "double"}


def scale_of(kind: str | None) -> int:
    """Return the digits behind the point that a type of exact numbers has."""
    is_scaled = kind is not None and kind.startswith("decimal") and "," in kind
    return int(kind.removesuffix(")").split(",")[1]) if kind and is_scaled else 0
