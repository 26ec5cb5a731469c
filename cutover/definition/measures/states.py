"""State columns: the partial state of a measure, the Spark aggregate that computes it, and how it merges."""

from dataclasses import dataclass
from typing import Literal

Merge = Literal["sum", "min", "max", "digits", "counts", "smallest", "earliest"]
"""Merge functions. For numbers and structs: sum, min, max; `digits` sums each field of a struct. For lists: `counts`
sums the counts of (value, count) per value, `smallest` keeps a number of the smallest distinct values, `earliest` a
number of the smallest values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateColumn:
    """Column of a partial aggregate."""

    column: str
    type: str  # Spark type: bigint, decimal(38,0), double, ...
    create: str  # Spark SQL aggregate over the parsed columns
    merge: Merge
    max_entries: int = 0  # length of a list that merges by `smallest` or `earliest`

    @property
    def empty_value(self) -> int | None:
        """Value over no rows: 0 for a count, null for anything else."""
        return 0 if self.create.startswith("count(") else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """Expression that computes a result from merged state columns."""

    sql: str  # DuckDB SQL over the state columns
    type: str  # Spark type of the result


def compute_sum_type(value_type: str | None) -> str:
    """Return the type of a sum: a decimal of 38 digits with the scale of the values."""
    return f"decimal(38,{parse_scale(value_type or 'bigint')})"


def is_float_type(kind: str | None) -> bool:
    """Return whether sums of a type are computed from digits (`doubles`)."""
    return kind in {"float", "double"}


def parse_scale(kind: str | None) -> int:
    """Return the scale of a type of exact numbers: the digits after the decimal point."""
    is_scaled = kind is not None and kind.startswith("decimal") and "," in kind
    return int(kind.removesuffix(")").split(",")[1]) if kind and is_scaled else 0
