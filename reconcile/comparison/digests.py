"""Digests by window, and components of sessions: windows with equal digests need no join.

A digest is a count, the xor and the sum of the hashes of all rows: the order of rows does not matter; a pair of equal
rows cancels in the xor but not in the sum. Digests ignore tolerances, so some groups without a difference are joined.

A component has all sessions of a key on either side that overlap transitively: a late row may join two sessions, so
that one side has one session and the other has two, which is one difference. Rows of both sides get the start of their
component, and a component is compared only if all of it is closed, covered and in the requested range. For windows with
fixed bounds, each window is a component.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`
# ruff: noqa: S608 -- every name in a query is quoted by `identifier`
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from cutover.definition.model.pipeline import Pipeline
from cutover.engine.queries import fetch_row
from cutover.quoting import identifier
from cutover.reconcile.comparison.layout import Layout
from cutover.records.fold import SESSION, group_sessions_sql

COMPONENT = "_component"
MEMBERS = "members"


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


def create_members(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, sides: Sequence[str]) -> None:
    """Create the table `members`: `session_start`, the key, and the component as `window_start` and `window_end`.

    Args:
        connection: Has the sides: `window_start`, `window_end`, the key.
        pipeline: The definition.
        sides: Names of relations; each of their rows is a member.
    """
    keys = ", ".join(map(identifier, pipeline.key))
    members = " UNION ALL ".join(f"SELECT window_start, window_end, {keys} FROM {side}" for side in sides)
    component = f"(PARTITION BY {keys}, {SESSION})"
    connection.execute(
        f"CREATE TEMP TABLE {MEMBERS} AS SELECT DISTINCT window_start AS session_start, {keys},"
        f" min(window_start) OVER {component} AS window_start, max(window_end) OVER {component} AS window_end"
        f" FROM ({group_sessions_sql(pipeline.key, f'({members})')})"
    )


def select_judged_sql(pipeline: Pipeline, side: str, condition: str) -> str:
    """Return the query of the rows of a side whose component is compared, with the start of the component.

    Args:
        pipeline: The definition.
        side: Name of a relation from which `members` was created.
        condition: SQL over `window_start` and `window_end` of a component.
    """
    same_key = " AND ".join(f"m.{key} IS NOT DISTINCT FROM s.{key}" for key in map(identifier, pipeline.key))
    members = f"(SELECT * FROM {MEMBERS} WHERE {condition})"
    return (
        f"SELECT s.*, m.window_start AS {COMPONENT} FROM {side} s"
        f" JOIN {members} m ON m.session_start = s.window_start AND {same_key}"
    )


def assign_components(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, table: str) -> None:
    """Add to each row of a temporary table the component that contains the row's window and key."""
    keys = ", ".join(map(identifier, pipeline.key))
    same_key = " AND ".join(f"m.{key} IS NOT DISTINCT FROM r.{key}" for key in map(identifier, pipeline.key))
    component_rows = f"(SELECT DISTINCT {keys}, window_start, window_end FROM {MEMBERS})"
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT r.*, m.window_start AS {COMPONENT} FROM {table} r"
        f" LEFT JOIN {component_rows} m ON {same_key} AND r.window_start BETWEEN m.window_start AND m.window_end"
    )
