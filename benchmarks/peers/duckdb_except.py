"""Comparison of two Parquet tables by DuckDB's EXCEPT ALL in both directions."""

import duckdb


def count(connection: duckdb.DuckDBPyConnection, expected: str, actual: str) -> tuple[int, int]:
    """Count the rows that only the expected table has, and those that only the actual one has."""
    counts = (
        connection.execute(f"SELECT count(*) FROM (FROM '{table}' EXCEPT ALL FROM '{other}')").fetchall()[0][0]
        for table, other in ((expected, actual), (actual, expected))
    )
    return int(next(counts)), int(next(counts))
