"""Where differences are more frequent than elsewhere: values of key columns, hours and weekdays of windows.

A value is over-represented if its share of the rows that differ lies above its share of all rows by more than chance
would have it (the lower end of Wilson's interval, at 1 % over all values that were looked at). That says where to
look. It is no cause: two columns that go together are both over-represented when one of them matters.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import duckdb

from cutover.engine.queries import number
from cutover.quoting import identifier
from cutover.reconcile.result.codec import scalar
from cutover.reconcile.result.finding import KeySegment

FEWEST = 5
"""Different rows of a value, below which nothing is said of it."""

ERROR = 0.01
"""Chance that any value at all is named where none is more frequent."""

SHOWN = 20

FEW = 1_000
"""Tested values up to which all rows are asked for these alone; of more, all values are counted, which is faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentColumn:
    """A column whose values are looked at."""

    value: str  # SQL over the rows that differ
    every: str  # table or query in parentheses: `v`, a value, and `n`, rows of it among all; a value may stand twice


def over_represented(
    connection: duckdb.DuckDBPyConnection, columns: Mapping[str, SegmentColumn], different: str, compared: str
) -> tuple[KeySegment, ...]:
    """Return the values of columns with more than their share of the rows that differ; the largest lift first.

    Args:
        connection: Holds all relations.
        columns: What to show a column as, to where its values are.
        different: A table or a query in parentheses: the rows that differ.
        compared: SQL of how many rows were compared, the different ones too.
    """
    apart = number(connection, f"SELECT count(*) FROM {different}")
    if apart < FEWEST:
        return ()  # before all rows are counted by each column
    tested = [(name, *row, apart) for name, at in columns.items() for row in _count(connection, at, different)]
    if not tested:
        return ()
    rows = number(connection, f"SELECT {compared}")
    bound = NormalDist().inv_cdf(1 - ERROR / len(tested))
    found = sorted(
        _segments(tested, rows, bound), key=lambda one: (-one.lift, -one.different, one.column, str(one.value))
    )
    return tuple(found[:SHOWN])


def every_sql(actual: str, missing: str) -> str:
    """Return a query in parentheses for a column's `every`, of two queries: a value, and rows of it."""
    return f"(FROM ({actual} UNION ALL {missing}) every(v, n))"


def window_columns(column: str, every: str) -> dict[str, SegmentColumn]:
    """Return what a window's start says of a day: its hour and its weekday, in UTC.

    Args:
        column: Of window starts.
        every: A query in parentheses: `v`, a window's start, and `n`, rows of it among all.
    """
    parts = {f"hour of {column}": "hour", f"weekday of {column}": "dayname"}
    return {
        name: SegmentColumn(
            value=f"{part}({identifier(column)}::TIMESTAMP)",
            every=f"(SELECT {part}(v::TIMESTAMP) AS v, n FROM {every})",
        )
        for name, part in parts.items()
    }


def _count(
    connection: duckdb.DuckDBPyConnection, column: SegmentColumn, different: str
) -> list[tuple[object, int, int]]:
    """Return for each value that is tested: the value, its different rows, and its rows."""
    # A value of too few different rows is not tested: a key that differs in each row would be counted in vain.
    own = f"SELECT {column.value} AS v, count(*) AS n FROM {different} GROUP BY 1 HAVING count(*) >= {FEWEST}"
    values = number(connection, f"SELECT count(*) FROM ({own})")
    if not values:
        return []
    alone = "WHERE EXISTS (SELECT 1 FROM d WHERE d.v IS NOT DISTINCT FROM e.v)" if values <= FEW else ""
    query = f"""
        WITH d AS MATERIALIZED ({own}),
             a AS (SELECT v, sum(n) AS n FROM {column.every} e {alone} GROUP BY v)
        SELECT d.v, d.n, a.n FROM d JOIN a ON d.v IS NOT DISTINCT FROM a.v ORDER BY d.n DESC, d.v
    """
    return [(v, int(n), int(of)) for v, n, of in connection.execute(query).fetchall()]


def _segments(tested: Sequence[tuple[str, object, int, int, int]], all_rows: int, bound: float) -> Iterator[KeySegment]:
    for name, value, different, rows, all_different in tested:
        share, plain = different / all_different, rows / all_rows
        if _lower_end(different, all_different, bound) > plain:
            yield KeySegment(
                column=name, value=scalar(value), different=different, rows=rows, lift=round(share / plain, 2)
            )


def _lower_end(hits: int, of: int, bound: float) -> float:
    """Lower end of Wilson's score interval of a share; `bound` in standard deviations (Wilson 1927)."""
    share, square = hits / of, bound * bound
    middle, width = share + square / (2 * of), bound * sqrt(share * (1 - share) / of + square / (4 * of * of))
    return (middle - width) / (1 + square / of)
