"""Comparisons of two tables: by DataComPy on Spark, and by EXCEPT ALL, a full join and checksums of segments in DuckDB.

DataComPy is used as in its documentation, by join columns, then `matches()`. It makes no report, which would take
longer. Only `make bench` installs it (benchmarks/requirements.txt), in addition to Cutover's packages.

Checksums of segments are like those of reladiff (data-diff). The range of the key's first column is split into 32
segments. For each segment, the number of rows and a sum of MD5 sums over the text of all columns are compared. A
segment that differs is split again, until it has few rows, which are fetched.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import duckdb
from pyspark.sql import DataFrame, SparkSession


def matches(spark: SparkSession, expected: DataFrame, actual: DataFrame, *, key: Sequence[str]) -> bool:
    """Check that two frames have equal rows."""
    from datacompy import SparkSQLCompare  # noqa: PLC0415 -- only installed for benchmarks

    try:
        return bool(SparkSQLCompare(spark, expected, actual, join_columns=list(key)).matches())
    finally:
        spark.catalog.clearCache()


def count_by_except(connection: duckdb.DuckDBPyConnection, expected: str, actual: str) -> tuple[int, int]:
    """Count the rows that only the expected table has, and those that only the actual one has."""
    counts = (
        connection.execute(f"SELECT count(*) FROM (FROM '{table}' EXCEPT ALL FROM '{other}')").fetchall()[0][0]
        for table, other in ((expected, actual), (actual, expected))
    )
    return int(next(counts)), int(next(counts))


def count_by_join(
    connection: duckdb.DuckDBPyConnection, expected: str, actual: str, *, key: Sequence[str], values: Sequence[str]
) -> tuple[int, int, int]:
    """Count missing, extra and changed rows."""
    on = " AND ".join(f"e.{name} IS NOT DISTINCT FROM a.{name}" for name in key)
    differs = " OR ".join(f"e.{name} IS DISTINCT FROM a.{name}" for name in values)
    query = f"""
        SELECT count(*) FILTER (a.there IS NULL), count(*) FILTER (e.there IS NULL),
               count(*) FILTER (e.there AND a.there)
        FROM (SELECT *, true AS there FROM '{expected}') e FULL JOIN (SELECT *, true AS there FROM '{actual}') a ON {on}
        WHERE e.there IS NULL OR a.there IS NULL OR {differs}
    """
    missing, extra, differing = connection.execute(query).fetchall()[0]
    return int(missing), int(extra), int(differing)


SEGMENTS = 32
MAX_FETCHED_ROWS = 16_384  # the default of reladiff
Rows = set[tuple[Any, ...]]


def find_by_segments(
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
