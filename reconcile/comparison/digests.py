"""Digests by window: two sides whose digests agree need no join.

A digest is a count, the xor and the sum of the hashes of all rows: the order of rows does not matter; a pair of equal
rows cancels in the xor but not in the sum. A digest knows no tolerance; it only sends more to the diff.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from dataclasses import dataclass

import duckdb

from cutover.quoting import identifier
from cutover.reconcile.comparison.layout import Layout
from cutover.reconcile.result.query import first


@dataclass(frozen=True, slots=True, kw_only=True)
class Digests:
    """How many groups (windows) there are on either side, and in how many the digests differ."""

    groups: int
    different: int


def differing_groups(
    connection: duckdb.DuckDBPyConnection, layout: Layout, expected: str, actual: str, *, into: str
) -> Digests:
    """Make the temporary table `into` (`_group`) of all groups whose digests differ.

    Args:
        connection: Holds both relations.
        layout: Their keys and values.
        expected: Name of the trusted relation.
        actual: Name of the judged one.
        into: Name of the table to make.
    """
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {identifier(into)} AS "
        "SELECT CASE WHEN e.n IS NULL THEN a._of ELSE e._of END AS _group,"
        " (e.n, e.x, e.s) IS DISTINCT FROM (a.n, a.x, a.s) AS _differs"
        f" FROM ({_digest(layout, expected)}) e FULL JOIN ({_digest(layout, actual)}) a"
        " ON e._of IS NOT DISTINCT FROM a._of"
    )
    groups, different = first(connection, f"SELECT count(*), count(*) FILTER (_differs) FROM {identifier(into)}")
    connection.execute(f"DELETE FROM {identifier(into)} WHERE NOT _differs")
    return Digests(groups=int(groups), different=int(different))


def _digest(layout: Layout, relation: str) -> str:
    return (
        f"SELECT _of, count(*) AS n, bit_xor(_hash) AS x, sum(_hash) AS s FROM "
        f"(SELECT {layout.group_sql} AS _of, {layout.hash_sql} AS _hash FROM {identifier(relation)}) GROUP BY 1"
    )
