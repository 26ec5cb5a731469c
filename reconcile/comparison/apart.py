"""Distances between the values of a column, over the rows on both sides that differ."""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from cutover.engine.queries import fetch_row
from cutover.reconcile.result.finding import Apart

SHARES = (0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Column of numbers in a table of differences."""

    name: str
    expected: str  # SQL
    actual: str  # SQL
    differs: str  # SQL: the two differ


def measure_distances(connection: duckdb.DuckDBPyConnection, relation: str, pairs: Sequence[Pair]) -> tuple[Apart, ...]:
    """Measure distance and direction for each column that differs in a row with a number on both sides.

    Percentiles are discrete (values that occur), so that no interpolation depends on the engine.

    Args:
        connection: Has the relation.
        relation: A table or a query in parentheses, one row for each row that differs.
        pairs: Columns of numbers.
    """
    return tuple(apart for pair in pairs if (apart := _measure(connection, relation, pair)) is not None)


def _measure(connection: duckdb.DuckDBPyConnection, relation: str, pair: Pair) -> Apart | None:
    size = "abs(d)"
    shares = ", ".join(map(str, SHARES))
    left, right = (f"({side})::DOUBLE" for side in (pair.expected, pair.actual))
    # The values themselves decide which is larger: as doubles, large decimals may be equal.
    is_above = f"({pair.actual}) > ({pair.expected})"
    rows = f"SELECT {right} - {left} AS d, {is_above} AS is_above FROM {relation} WHERE {pair.differs}"
    count, above_count, percentiles, largest, total = fetch_row(
        connection,
        f"SELECT count(*), count(*) FILTER (is_above), quantile_disc({size}, [{shares}]), max({size}),"
        f" sum(d ORDER BY d) FROM ({rows}) WHERE isfinite(d)",
    )
    if not count:
        return None
    p50, p90, p99 = percentiles
    return Apart(
        column=pair.name,
        rows=int(count),
        above=int(above_count),
        mean=float(total) / int(count),
        p50=float(p50),
        p90=float(p90),
        p99=float(p99),
        largest=float(largest),
    )
