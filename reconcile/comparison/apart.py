"""How far apart the values of a column are, over the rows that both sides have and that differ."""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from cutover.engine.queries import first
from cutover.reconcile.result.finding import Apart

SHARES = (0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A column of numbers, as a table of differences holds it."""

    name: str
    expected: str  # SQL
    actual: str  # SQL
    differs: str  # SQL: the two differ


def measure(connection: duckdb.DuckDBPyConnection, relation: str, pairs: Sequence[Pair]) -> tuple[Apart, ...]:
    """Return, for each column that differs somewhere with a number on both sides, how far and in which direction.

    Percentiles are values that occur (the discrete ones), so that no interpolation depends on the engine.

    Args:
        connection: Holds the relation.
        relation: A table or a query in parentheses, one row for each row that differs.
        pairs: Columns of numbers.
    """
    return tuple(found for pair in pairs if (found := _measure(connection, relation, pair)) is not None)


def _measure(connection: duckdb.DuckDBPyConnection, relation: str, pair: Pair) -> Apart | None:
    size = "abs(d)"
    shares = ", ".join(map(str, SHARES))
    left, right = (f"({side})::DOUBLE" for side in (pair.expected, pair.actual))
    # Which is larger is asked of the values themselves: as doubles, large decimals may be the same.
    is_above = f"({pair.actual}) > ({pair.expected})"
    rows = f"SELECT {right} - {left} AS d, {is_above} AS is_above FROM {relation} WHERE {pair.differs}"
    count, above, shown, largest, total = first(
        connection,
        f"SELECT count(*), count(*) FILTER (is_above), quantile_disc({size}, [{shares}]), max({size}),"
        f" sum(d ORDER BY d) FROM ({rows}) WHERE isfinite(d)",
    )
    if not count:
        return None
    p50, p90, p99 = shown
    return Apart(
        column=pair.name,
        rows=int(count),
        above=int(above),
        mean=float(total) / int(count),
        p50=float(p50),
        p90=float(p90),
        p99=float(p99),
        largest=float(largest),
    )
