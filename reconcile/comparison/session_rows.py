"""Rows of a job's table with sessions: parts of one session are merged, and those of compared sessions are selected.

In append mode, Spark writes a session as soon as the watermark has reached its end. A record that is not late, but
would have extended it, begins another session then, which overlaps with the first. Together these rows hold the records
of the one session that the definition has.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Mapping

from cutover.definition.measures.kinds import Count, Max, Min, Sum
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.spark_stream import WINDOW_END, WINDOW_START
from cutover.quoting import identifier
from cutover.reconcile.comparison.digests import MEMBERS
from cutover.records.fold import SESSION, group_sessions_sql

PARTS = "__parts"
"""Column that counts the rows of a session in the job's table."""

_MERGES: Mapping[type, str] = {Count: "sum", Max: "max", Min: "min", Sum: "sum"}
"""SQL functions that merge the values of a session's parts."""


def merge_parts_sql(pipeline: Pipeline, rows: str) -> str:
    """Return the query that merges the parts of a session, and counts them in `PARTS`.

    Rows of a key that touch are parts of one session if Spark can have written them: the records of a later part were
    not late once the watermark had reached the end of the one before, so each of them is less than a gap before it.
    """
    keys, gap = ", ".join(map(identifier, pipeline.key)), pipeline.window.reach
    session = f"PARTITION BY {keys}, {SESSION}"
    grouped = group_sessions_sql(pipeline.key, f"({rows})")
    previous_end = f"lag({WINDOW_END}) OVER ({session} ORDER BY {WINDOW_START}, {WINDOW_END})"
    follows = f"coalesce(epoch_us({WINDOW_START}) > epoch_us({previous_end}) - {gap}, true)"
    rows = f"SELECT *, {follows} AS __follows, row_number() OVER () AS __row FROM ({grouped})"
    rows = f"SELECT *, bool_and(__follows) OVER ({session}) AS __is_divided FROM ({rows})"
    merged = {name: _MERGES[type(measure)] for name, measure in pipeline.measures.items()}
    measures = ", ".join(f"{function}({identifier(name)}) AS {identifier(name)}" for name, function in merged.items())
    return (
        f"SELECT min({WINDOW_START}) AS {WINDOW_START}, {keys}, max({WINDOW_END}) AS {WINDOW_END}, {measures},"
        f" count(*) AS {PARTS} FROM ({rows}) GROUP BY {keys}, {SESSION}, CASE WHEN NOT __is_divided THEN __row END"
    )


def select_judged_sessions_sql(pipeline: Pipeline, rows: str, is_compared: str) -> str:
    """Return the query of the sessions that are compared: those that touch only compared components, or none."""
    keys = ", ".join(map(identifier, pipeline.key))
    components = f"SELECT DISTINCT {keys}, {WINDOW_START}, {WINDOW_END}, ({is_compared}) AS __compared FROM {MEMBERS}"
    intervals = f"(SELECT *, true AS __is_row FROM ({rows}) UNION ALL BY NAME {components})"
    grouped = group_sessions_sql(pipeline.key, intervals)
    judged = f"SELECT *, bool_and(__compared) OVER (PARTITION BY {keys}, {SESSION}) AS __is_judged FROM ({grouped})"
    condition = f"__is_row AND coalesce(__is_judged, {is_compared})"
    return f"SELECT * EXCLUDE (__is_row, __compared, __is_judged, {SESSION}) FROM ({judged}) WHERE {condition}"
