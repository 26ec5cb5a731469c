"""What is judged together: a window; of sessions, all of a key on either side that touch one another, over any others.

A late row may join two sessions, so that one side has one where the other has two: that is one difference. Rows of both
sides get the start of their component, and a component is judged as a whole: if it is closed, covered, and wanted.
Of windows that lie where they lie, each is a component of its own.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Sequence

import duckdb

from cutover.definition.model.pipeline import Pipeline
from cutover.quoting import identifier
from cutover.records.fold import SESSION, group_sessions_sql

COMPONENT = "_component"
MEMBERS = "members"


def make(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, sides: Sequence[str]) -> None:
    """Make the table `members`: `session_start`, the key, and the component as `window_start` and `window_end`.

    Args:
        connection: Holds the sides: `window_start`, `window_end`, the key.
        pipeline: The definition.
        sides: Names of relations; each of their rows is a member.
    """
    keys = ", ".join(map(identifier, pipeline.key))
    every = " UNION ALL ".join(f"SELECT window_start, window_end, {keys} FROM {side}" for side in sides)
    of_one = f"(PARTITION BY {keys}, {SESSION})"
    connection.execute(
        f"CREATE TEMP TABLE {MEMBERS} AS SELECT DISTINCT window_start AS session_start, {keys},"
        f" min(window_start) OVER {of_one} AS window_start, max(window_end) OVER {of_one} AS window_end"
        f" FROM ({group_sessions_sql(pipeline.key, f'({every})')})"
    )


def select_judged_sql(pipeline: Pipeline, side: str, judged: str) -> str:
    """Return the query of the rows of a side whose component is judged, with the start of it.

    Args:
        pipeline: The definition.
        side: Name of a relation that `members` was made of.
        judged: Condition over `window_start` and `window_end` of a component.
    """
    on = " AND ".join(f"m.{key} IS NOT DISTINCT FROM s.{key}" for key in map(identifier, pipeline.key))
    members = f"(SELECT * FROM {MEMBERS} WHERE {judged})"
    return (
        f"SELECT s.*, m.window_start AS {COMPONENT} FROM {side} s"
        f" JOIN {members} m ON m.session_start = s.window_start AND {on}"
    )


def place(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, table: str) -> None:
    """Give each row of a temporary table, by its window of a row alone and its key, the component that holds it."""
    keys = ", ".join(map(identifier, pipeline.key))
    on = " AND ".join(f"m.{key} IS NOT DISTINCT FROM r.{key}" for key in map(identifier, pipeline.key))
    whole = f"(SELECT DISTINCT {keys}, window_start, window_end FROM {MEMBERS})"
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT r.*, m.window_start AS {COMPONENT} FROM {table} r"
        f" LEFT JOIN {whole} m ON {on} AND r.window_start BETWEEN m.window_start AND m.window_end"
    )
