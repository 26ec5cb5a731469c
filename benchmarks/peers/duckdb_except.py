"""Two Parquet tables compared by DuckDB's EXCEPT ALL, both ways: how many rows only one of them has."""

import duckdb


def count(connection: duckdb.DuckDBPyConnection, expected: str, actual: str) -> tuple[int, int]:
    """Return the number of rows of the expected table that the other one lacks, and the other way round."""
    found = (
        connection.execute(f"SELECT count(*) FROM (FROM '{one}' EXCEPT ALL FROM '{other}')").fetchall()[0][0]
        for one, other in ((expected, actual), (actual, expected))
    )
    return int(next(found)), int(next(found))
