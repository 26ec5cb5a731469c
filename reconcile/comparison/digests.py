"""Digests by window: windows with equal digests need no join.

A digest is a count, the xor and the sum of the hashes of all rows: the order of rows does not matter; a pair of equal
rows cancels in the xor but not in the sum. Digests ignore tolerances, so some groups without a difference are joined.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from dataclasses import dataclass

import duckdb

from cutover.engine.queries import fetch_row
from cutover.quoting import identifier
from cutover.reconcile.comparison.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Digests:
    """Number of groups (windows) on either side, and of those with different digests."""

    groups: int
    different: int


def differing_groups(
    connection: duckdb.DuckDBPyConnection, layout: Layout, expected: str, actual: str, *, into: str
) -> Digests:
    """Create the temporary table `into` (`_group`, `_bucket`) of all groups whose digests differ.

    Args:
        connection: Has both relations.
        layout: Their keys and values.
        expected: Name of the trusted relation.
        actual: Name of the other relation.
        into: Name of the new table.
    """
    sides = (f"({digest_sql(layout, identifier(relation))})" for relation in (expected, actual))
    return compare_digests(connection, *sides, into=into)


def compare_digests(connection: duckdb.DuckDBPyConnection, expected: str, actual: str, *, into: str) -> Digests:
    """Create the temporary table `into`, like `differing_groups`, from digests.

    Args:
        connection: Has both relations.
        expected: A table, or a query in parentheses, with the columns of `digest_sql`.
        actual: The same for the other side.
        into: Name of the new table.
    """
    either = ", ".join(f"CASE WHEN e.n IS NULL THEN a.{c} ELSE e.{c} END AS {c}" for c in ("_group", "_bucket"))
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {identifier(into)} AS"
        f" SELECT {either}, (e.n, e.x, e.s) IS DISTINCT FROM (a.n, a.x, a.s) AS _differs"
        f" FROM {expected} e FULL JOIN {actual} a"
        " ON e._group IS NOT DISTINCT FROM a._group AND e._bucket = a._bucket"
    )
    groups, different = fetch_row(connection, f"SELECT count(*), count(*) FILTER (_differs) FROM {identifier(into)}")
    connection.execute(f"DELETE FROM {identifier(into)} WHERE NOT _differs")
    return Digests(groups=int(groups), different=int(different))


def digest_sql(layout: Layout, rows: str, *further: str) -> str:
    """Return the query of digests: `_group`, `_bucket`, `n` rows, `x` and `s` (xor and sum of their hashes).

    Args:
        layout: Layout of the rows.
        rows: A quoted table, or a query in parentheses.
        further: Additional columns, quoted, by which digests are grouped; they come first.
    """
    by = ", ".join([*further, f"{layout.group_sql} AS _group", f"{layout.bucket_sql} AS _bucket"])
    names = ", ".join([*further, "_group", "_bucket"])
    return (
        f"SELECT {names}, count(*) AS n, bit_xor(_hash) AS x, sum(_hash) AS s"
        f" FROM (SELECT {by}, {layout.hash_sql} AS _hash FROM {rows}) GROUP BY {names}"
    )
