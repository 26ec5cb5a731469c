"""Components of sessions that are compared together: all sessions of a key on either side that overlap transitively.

A late row may join two sessions, so that one side has one session and the other has two: that is one difference. Rows
of both sides get the start of their component, and a component is compared only if all of it is closed, covered and in
the requested range. For windows with fixed bounds, each window is a component.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Sequence

import duckdb

from cutover.definition.model.pipeline import Pipeline
from cutover.quoting import identifier
from cutover.records.fold import SESSION, group_sessions_sql

COMPONENT = "_component"
MEMBERS = "members"


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
