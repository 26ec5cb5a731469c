"""Digests by window, sessions and their components, and segments with more differences than others.

A digest is a count, the xor and the sum of the hashes of all rows: the order of rows does not matter; a pair of equal
rows cancels in the xor but not in the sum. Windows with equal digests need no join. Digests ignore tolerances, so some
groups without a difference are joined.

A component has all sessions of a key on either side that overlap transitively: a late row may join two sessions, so
that one side has one session and the other has two, which is one difference. Rows of both sides get the start of their
component, and a component is compared only if all of it is closed, covered and in the requested range. For windows with
fixed bounds, each window is a component.

A team's own job may write parts of one session, which are merged. In append mode, Spark writes a session as soon as the
watermark has reached its end. A record that is not late, but would have extended it, begins another session then, which
overlaps with the first. Together these rows hold the records of the one session that the definition has.

Segments are values of key columns, hours and weekdays of windows. A value is over-represented if its share of the rows
that differ exceeds its share of all rows by more than chance (the lower end of Wilson's interval, at 1 % over all
tested values). This is a hint for an investigation, not a cause: two correlated columns are both over-represented if
one of them matters.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import duckdb

from cutover.definition.measures.kinds import Count, Max, Min, Sum
from cutover.definition.model.pipeline import WINDOW_END, WINDOW_START, Pipeline
from cutover.engine.queries import fetch_number, fetch_row
from cutover.quoting import identifier
from cutover.reconcile.comparison.layout import COMPONENT, Layout
from cutover.reconcile.result.codec import scalar
from cutover.reconcile.result.finding import KeySegment
from cutover.records.fold import SESSION, group_sessions_sql

FEWEST = 5
"""Minimum number of different rows for a value to be tested."""

ERROR = 0.01
"""Probability that any value is reported although none is more frequent."""

SHOWN = 20

FEW = 1_000
"""Maximum number of tested values for which rows are filtered; for more, counting all values is faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentColumn:
    """Column whose values are tested."""

    value: str  # SQL over the rows that differ
    all_values: str  # table or query in parentheses: `v`, a value, and `n`, its rows among all; a value may occur twice


def find_over_represented_values(
    connection: duckdb.DuckDBPyConnection, columns: Mapping[str, SegmentColumn], different: str, compared: str
) -> tuple[KeySegment, ...]:
    """Return the values of columns with more than their share of the rows that differ; the largest lift first.

    Args:
        connection: Has all relations.
        columns: Displayed name -> column.
        different: Table or query in parentheses with the rows that differ.
        compared: SQL for the number of compared rows, including different ones.
    """
    different_count = fetch_number(connection, f"SELECT count(*) FROM {different}")
    if different_count < FEWEST:
        return ()  # skip counting all rows by each column
    tested_values = [
        (name, *row, different_count)
        for name, segment_column in columns.items()
        for row in _count(connection, segment_column, different)
    ]
    if not tested_values:
        return ()
    rows = fetch_number(connection, f"SELECT {compared}")
    z_score = NormalDist().inv_cdf(1 - ERROR / len(tested_values))
    found_segments = sorted(
        _segments(tested_values, rows, z_score),
        key=lambda segment: (-segment.lift, -segment.different, segment.column, str(segment.value)),
    )
    return tuple(found_segments[:SHOWN])


def every_sql(actual: str, missing: str) -> str:
    """Return a query in parentheses for a column's `every`, from two queries of a value and its rows."""
    return f"(FROM ({actual} UNION ALL {missing}) every(v, n))"


def window_columns(column: str, all_values: str) -> dict[str, SegmentColumn]:
    """Return the columns for the hour and the weekday of a window's start, in UTC.

    Args:
        column: Column with window starts.
        all_values: Query in parentheses: `v`, a window's start, and `n`, its rows among all.
    """
    parts = {f"hour of {column}": "hour", f"weekday of {column}": "dayname"}
    return {
        name: SegmentColumn(
            value=f"{part}({identifier(column)}::TIMESTAMP)",
            all_values=f"(SELECT {part}(v::TIMESTAMP) AS v, n FROM {all_values})",
        )
        for name, part in parts.items()
    }


def _count(
    connection: duckdb.DuckDBPyConnection, column: SegmentColumn, different: str
) -> list[tuple[object, int, int]]:
    """Return each tested value with the number of its different rows, and of all its rows."""
    # A value with too few different rows is not tested: counting a key that is unique per row would be useless.
    frequent = f"SELECT {column.value} AS v, count(*) AS n FROM {different} GROUP BY 1 HAVING count(*) >= {FEWEST}"
    values = fetch_number(connection, f"SELECT count(*) FROM ({frequent})")
    if not values:
        return []
    condition = "WHERE EXISTS (SELECT 1 FROM d WHERE d.v IS NOT DISTINCT FROM e.v)" if values <= FEW else ""
    query = f"""
        WITH d AS MATERIALIZED ({frequent}),
             a AS (SELECT v, sum(n) AS n FROM {column.all_values} e {condition} GROUP BY v)
        SELECT d.v, d.n, a.n FROM d JOIN a ON d.v IS NOT DISTINCT FROM a.v ORDER BY d.n DESC, d.v
    """
    return [(v, int(n), int(all_rows)) for v, n, all_rows in connection.execute(query).fetchall()]


def _segments(
    tested_values: Sequence[tuple[str, object, int, int, int]], all_rows: int, z_score: float
) -> Iterator[KeySegment]:
    for name, value, different, rows, all_different in tested_values:
        share, base_share = different / all_different, rows / all_rows
        if _lower_end(different, all_different, z_score) > base_share:
            yield KeySegment(
                column=name, value=scalar(value), different=different, rows=rows, lift=round(share / base_share, 2)
            )


def _lower_end(hits: int, tries: int, z_score: float) -> float:
    """Compute the lower end of Wilson's score interval of a share; `bound` in standard deviations (Wilson 1927)."""
    share, square = hits / tries, z_score * z_score
    middle, width = (
        share + square / (2 * tries),
        z_score * sqrt(share * (1 - share) / tries + square / (4 * tries * tries)),
    )
    return (middle - width) / (1 + square / tries)


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
