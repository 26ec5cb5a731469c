"""Comparison of two Parquet tables by checksums of segments in DuckDB, like reladiff (data-diff).

The range of the key's first column is split into 32 segments. For each segment, the number of rows and a sum of MD5
sums over the text of all columns are compared. A segment that differs is split again, until it has few rows, which are
fetched.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import duckdb

SEGMENTS = 32
MAX_FETCHED_ROWS = 16_384  # the default of reladiff
Rows = set[tuple[Any, ...]]


def find(
    connection: duckdb.DuckDBPyConnection, expected: str, actual: str, *, column: str, columns: Sequence[str]
) -> tuple[Rows, Rows]:
    """Find the rows that only the expected table has, and those that only the actual one has."""
    both = f"(SELECT {column} FROM '{expected}' UNION ALL SELECT {column} FROM '{actual}')"
    bounds = f"SELECT min({column}), max({column}) + INTERVAL 1 MICROSECOND FROM {both}"
    start, end = connection.execute(bounds).fetchall()[0]
    return _descend(connection, (expected, actual), column, columns, start, end)


def _descend(
    connection: duckdb.DuckDBPyConnection,
    tables: tuple[str, str],
    column: str,
    columns: Sequence[str],
    start: datetime,
    end: datetime,
) -> tuple[Rows, Rows]:
    text = f"concat_ws('|', {', '.join(f'coalesce({name}::VARCHAR, chr(0))' for name in columns)})"
    condition = f"{column} >= ? AND {column} < ?"
    query = f"SELECT count(*), sum(('0x' || md5({text})[18:])::BIGINT) FROM '{{}}' WHERE {condition}"
    differing: tuple[Rows, Rows] = (set(), set())
    width = (end - start) / SEGMENTS
    for n in range(SEGMENTS):
        low, high = start + n * width, end if n == SEGMENTS - 1 else start + (n + 1) * width
        sums = [connection.execute(query.format(table), [low, high]).fetchall()[0] for table in tables]
        if sums[0] == sums[1]:
            continue
        if max(int(rows) for rows, _ in sums) <= MAX_FETCHED_ROWS:
            parts = _fetch(connection, tables, column, columns, low, high)
        else:
            parts = _descend(connection, tables, column, columns, low, high)
        for side, part in zip(differing, parts, strict=True):
            side.update(part)
    return differing


def _fetch(
    connection: duckdb.DuckDBPyConnection,
    tables: tuple[str, str],
    column: str,
    columns: Sequence[str],
    start: datetime,
    end: datetime,
) -> tuple[Rows, Rows]:
    column_list = ", ".join(columns)
    rows = [
        set(
            connection.execute(
                f"SELECT {column_list} FROM '{table}' WHERE {column} >= ? AND {column} < ?", [start, end]
            ).fetchall()
        )
        for table in tables
    ]
    return rows[0] - rows[1], rows[1] - rows[0]
