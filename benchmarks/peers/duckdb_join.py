"""Comparison of two Parquet tables by a hand-written full join in DuckDB, null-safe, column by column."""

from collections.abc import Sequence

import duckdb


def count(
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
