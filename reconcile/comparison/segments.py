"""Where differences are more frequent than elsewhere: values of key columns, hours and weekdays of windows.

A value is over-represented if its share of the rows that differ lies above its share of all rows by more than chance
would have it (the lower end of Wilson's interval, at 1 % over all values that were looked at). That says where to
look. It is no cause: two columns that go together are both over-represented when one of them matters.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Iterator, Mapping
from math import sqrt
from statistics import NormalDist

import duckdb

from cutover.engine.queries import number
from cutover.quoting import identifier
from cutover.reconcile.result.codec import scalar
from cutover.reconcile.result.outcome import KeySegment

FEWEST = 5
"""Different rows of a value, below which nothing is said of it."""

ERROR = 0.01
"""Chance that any value at all is named where none is more frequent."""

SHOWN = 20


def over_represented(
    connection: duckdb.DuckDBPyConnection, columns: Mapping[str, str], different: str, every: str
) -> tuple[KeySegment, ...]:
    """Return the values of columns with more than their share of the rows that differ; the largest lift first.

    Args:
        connection: Holds both relations.
        columns: What to show a column as, to its SQL over both relations.
        different: A table or a query in parentheses: the rows that differ.
        every: The same of all rows that were compared, the different ones too.
    """
    if number(connection, f"SELECT count(*) FROM {different}") < FEWEST:
        return ()  # before all rows are counted by each column
    tested = [(name, *row) for name, sql in columns.items() for row in _count(connection, sql, different, every)]
    if not tested:
        return ()
    bound = NormalDist().inv_cdf(1 - ERROR / len(tested))
    found = sorted(_segments(tested, bound), key=lambda one: (-one.lift, -one.different, one.column, str(one.value)))
    return tuple(found[:SHOWN])


def window_columns(column: str) -> dict[str, str]:
    """Return what a window's start says of a day: its hour and its weekday, in UTC."""
    at = f"({identifier(column)}::TIMESTAMP)"
    return {f"hour of {column}": f"hour({at})", f"weekday of {column}": f"dayname({at})"}


def _count(
    connection: duckdb.DuckDBPyConnection, sql: str, different: str, every: str
) -> list[tuple[object, int, int, int, int]]:
    """Return for each value that is tested: the value, its different rows, its rows, and both numbers of all values."""
    # A value of too few different rows is not tested: a key that differs in each row would be counted in vain.
    own = f"SELECT {sql} AS v, count(*) AS n FROM {different} GROUP BY 1 HAVING count(*) >= {FEWEST}"
    if not number(connection, f"SELECT count(*) FROM ({own})"):
        return []
    query = f"""
        WITH d AS MATERIALIZED ({own}),
             a AS (SELECT v, count(*) AS n FROM (SELECT {sql} AS v FROM {every}) e
                   WHERE EXISTS (SELECT 1 FROM d WHERE d.v IS NOT DISTINCT FROM e.v) GROUP BY v)
        SELECT d.v, d.n, a.n, (SELECT count(*) FROM {different}), (SELECT count(*) FROM {every})
        FROM d JOIN a ON d.v IS NOT DISTINCT FROM a.v ORDER BY d.n DESC, d.v
    """
    return [
        (v, int(n), int(of), int(apart), int(rows)) for v, n, of, apart, rows in connection.execute(query).fetchall()
    ]


def _segments(tested: list[tuple[str, object, int, int, int, int]], bound: float) -> Iterator[KeySegment]:
    for name, value, different, rows, all_different, all_rows in tested:
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
