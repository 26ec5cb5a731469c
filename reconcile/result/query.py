"""Small ways to ask a DuckDB connection."""

from typing import Any

import duckdb


def first(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[Any, ...]:
    """Return the one row of an aggregate; fetched to its end, as a connection refuses other work before that."""
    row: tuple[Any, ...] = connection.execute(query).fetchall()[0]
    return row


def number(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    """Return the one number of an aggregate; null counts as 0."""
    return int(first(connection, query)[0] or 0)
