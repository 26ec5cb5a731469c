"""Two Parquet tables compared by checksums of segments in DuckDB, in the manner of reladiff (data-diff).

The range of the key's first column is cut into 32 segments; of each a count and a sum of MD5 sums over the text of all
columns is asked for on both sides; a segment that differs is cut again, until it has few rows, which are fetched.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import duckdb

SEGMENTS = 32
FEW = 16_384  # rows that are fetched; the bound of reladiff's own
Rows = set[tuple[Any, ...]]


def find(
    connection: duckdb.DuckDBPyConnection, expected: str, actual: str, *, column: str, columns: Sequence[str]
) -> tuple[Rows, Rows]:
    """Return the rows that only one of the tables has: the expected one, the other one."""
    both = f"(SELECT {column} FROM '{expected}' UNION ALL SELECT {column} FROM '{actual}')"
    bounds = f"SELECT min({column}), max({column}) + INTERVAL 1 MICROSECOND FROM {both}"
    first, end = connection.execute(bounds).fetchall()[0]
    return _descend(connection, (expected, actual), column, columns, first, end)


def _descend(
    connection: duckdb.DuckDBPyConnection,
    tables: tuple[str, str],
    column: str,
    columns: Sequence[str],
    first: datetime,
    end: datetime,
) -> tuple[Rows, Rows]:
    text = f"concat_ws('|', {', '.join(f'coalesce({name}::VARCHAR, chr(0))' for name in columns)})"
    within = f"{column} >= ? AND {column} < ?"
    asked = f"SELECT count(*), sum(('0x' || md5({text})[18:])::BIGINT) FROM '{{}}' WHERE {within}"
    found: tuple[Rows, Rows] = (set(), set())
    width = (end - first) / SEGMENTS
    for n in range(SEGMENTS):
        low, high = first + n * width, end if n == SEGMENTS - 1 else first + (n + 1) * width
        sums = [connection.execute(asked.format(table), [low, high]).fetchall()[0] for table in tables]
        if sums[0] == sums[1]:
            continue
        if max(int(rows) for rows, _ in sums) <= FEW:
            parts = _fetch(connection, tables, column, columns, low, high)
        else:
            parts = _descend(connection, tables, column, columns, low, high)
        for side, part in zip(found, parts, strict=True):
            side.update(part)
    return found


def _fetch(
    connection: duckdb.DuckDBPyConnection,
    tables: tuple[str, str],
    column: str,
    columns: Sequence[str],
    first: datetime,
    end: datetime,
) -> tuple[Rows, Rows]:
    listed = ", ".join(columns)
    rows = [
        set(
            connection.execute(
                f"SELECT {listed} FROM '{table}' WHERE {column} >= ? AND {column} < ?", [first, end]
            ).fetchall()
        )
        for table in tables
    ]
    return rows[0] - rows[1], rows[1] - rows[0]
