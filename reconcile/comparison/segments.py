"""Segments with more differences than others: values of key columns, hours and weekdays of windows.

A value is over-represented if its share of the rows that differ exceeds its share of all rows by more than chance (the
lower end of Wilson's interval, at 1 % over all tested values). This is a hint for an investigation, not a cause: two
correlated columns are both over-represented if one of them matters.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import duckdb

from cutover.engine.queries import fetch_number
from cutover.quoting import identifier
from cutover.reconcile.result.codec import scalar
from cutover.reconcile.result.finding import KeySegment

FEWEST = 5
"""Minimum number of different rows for a value to be tested."""

ERROR = 0.01
"""Probability that any value is reported although none is more frequent."""

SHOWN = 20

FEW = 1_000
"""Maximum number of tested values for which rows are filtered; for more, counting all values is faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentColumn:
    """Column whose values are tested."""

    value: str  # SQL over the rows that differ
    all_values: str  # table or query in parentheses: `v`, a value, and `n`, its rows among all; a value may occur twice


def find_over_represented_values(
    connection: duckdb.DuckDBPyConnection, columns: Mapping[str, SegmentColumn], different: str, compared: str
) -> tuple[KeySegment, ...]:
    """Return the values of columns with more than their share of the rows that differ; the largest lift first.

    Args:
        connection: Has all relations.
        columns: Displayed name -> column.
        different: Table or query in parentheses with the rows that differ.
        compared: SQL for the number of compared rows, including different ones.
    """
    different_count = fetch_number(connection, f"SELECT count(*) FROM {different}")
    if different_count < FEWEST:
        return ()  # skip counting all rows by each column
    tested_values = [
        (name, *row, different_count)
        for name, segment_column in columns.items()
        for row in _count(connection, segment_column, different)
    ]
    if not tested_values:
        return ()
    rows = fetch_number(connection, f"SELECT {compared}")
    z_score = NormalDist().inv_cdf(1 - ERROR / len(tested_values))
    found_segments = sorted(
        _segments(tested_values, rows, z_score),
        key=lambda segment: (-segment.lift, -segment.different, segment.column, str(segment.value)),
    )
    return tuple(found_segments[:SHOWN])


def every_sql(actual: str, missing: str) -> str:
    """Return a query in parentheses for a column's `every`, from two queries of a value and its rows."""
    return f"(FROM ({actual} UNION ALL {missing}) every(v, n))"


def window_columns(column: str, all_values: str) -> dict[str, SegmentColumn]:
    """Return the columns for the hour and the weekday of a window's start, in UTC.

    Args:
        column: Column with window starts.
        all_values: Query in parentheses: `v`, a window's start, and `n`, its rows among all.
    """
    parts = {f"hour of {column}": "hour", f"weekday of {column}": "dayname"}
    return {
        name: SegmentColumn(
            value=f"{part}({identifier(column)}::TIMESTAMP)",
            all_values=f"(SELECT {part}(v::TIMESTAMP) AS v, n FROM {all_values})",
        )
        for name, part in parts.items()
    }


def _count(
    connection: duckdb.DuckDBPyConnection, column: SegmentColumn, different: str
) -> list[tuple[object, int, int]]:
    """Return each tested value with the number of its different rows, and of all its rows."""
    # A value with too few different rows is not tested: counting a key that is unique per row would be useless.
    frequent = f"SELECT {column.value} AS v, count(*) AS n FROM {different} GROUP BY 1 HAVING count(*) >= {FEWEST}"
    values = fetch_number(connection, f"SELECT count(*) FROM ({frequent})")
    if not values:
        return []
    condition = "WHERE EXISTS (SELECT 1 FROM d WHERE d.v IS NOT DISTINCT FROM e.v)" if values <= FEW else ""
    query = f"""
        WITH d AS MATERIALIZED ({frequent}),
             a AS (SELECT v, sum(n) AS n FROM {column.all_values} e {condition} GROUP BY v)
        SELECT d.v, d.n, a.n FROM d JOIN a ON d.v IS NOT DISTINCT FROM a.v ORDER BY d.n DESC, d.v
    """
    return [(v, int(n), int(all_rows)) for v, n, all_rows in connection.execute(query).fetchall()]


def _segments(
    tested_values: Sequence[tuple[str, object, int, int, int]], all_rows: int, z_score: float
) -> Iterator[KeySegment]:
    for name, value, different, rows, all_different in tested_values:
        share, base_share = different / all_different, rows / all_rows
        if _lower_end(different, all_different, z_score) > base_share:
            yield KeySegment(
                column=name, value=scalar(value), different=different, rows=rows, lift=round(share / base_share, 2)
            )


def _lower_end(hits: int, tries: int, z_score: float) -> float:
    """Compute the lower end of Wilson's score interval of a share; `bound` in standard deviations (Wilson 1927)."""
    share, square = hits / tries, z_score * z_score
    middle, width = (
        share + square / (2 * tries),
        z_score * sqrt(share * (1 - share) / tries + square / (4 * tries * tries)),
    )
    return (middle - width) / (1 + square / tries)
