"""Pairing of rows with the same key: equal rows first, then near rows, then the remaining ones in order.

Rows are a multiset. Equal rows are paired one to one; of the remaining rows, as many as possible are paired within
their tolerances; only the others differ, in the order of their values. Order alone is not sufficient: near rows would
differ if a column with a tolerance sorts them differently, and one additional row would shift all following ones.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections import deque
from collections.abc import Iterable, Mapping

import duckdb

from cutover.engine.queries import count_where
from cutover.quoting import identifier
from cutover.reconcile.comparison.layout import Layout

MOST_PAIRS = 1_000_000
"""Maximum number of candidates for near pairs; beyond it, keys with the most rows are paired in order."""


def pair_rows(connection: duckdb.DuckDBPyConnection, layout: Layout, sides: tuple[str, str]) -> Mapping[str, int]:
    """Remove pairs of equal and near rows of repeated keys from two tables, and number the remaining rows in `__copy`.

    Returns the number of cells of each column that are equal only within its tolerance, in the removed pairs.

    Args:
        connection: Has both tables, with the layout's columns and `__copy` = 1.
        layout: Layout of both.
        sides: Names of the tables, the expected one first.
    """
    keys = ", ".join(map(identifier, layout.keys))
    columns = ", ".join(map(identifier, layout.columns))
    repeated = " UNION ".join(
        f"SELECT {keys} FROM {identifier(side)} GROUP BY {keys} HAVING count(*) > 1" for side in sides
    )
    connection.execute(f"CREATE OR REPLACE TEMP TABLE __repeated AS {repeated}")
    repeated_rows = [
        f"SELECT {columns} FROM {identifier(side)} t SEMI JOIN __repeated r ON {layout.same_key('t', 'r')}"
        for side in sides
    ]
    order = _order(layout)
    for n, (rows, other_rows) in enumerate(
        ((repeated_rows[0], repeated_rows[1]), (repeated_rows[1], repeated_rows[0]))
    ):
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE __left_{n} AS SELECT *, row_number() OVER (ORDER BY {keys}, {order})"
            f" AS __row FROM ({rows} EXCEPT ALL {other_rows})"
        )
    near = {} if all(value.exact for value in layout.values) else _remove_near(connection, layout)
    for n, side in enumerate(sides):
        single = f"SELECT * FROM {identifier(side)} t ANTI JOIN __repeated r ON {layout.same_key('t', 'r')}"
        copies = f"row_number() OVER (PARTITION BY {keys} ORDER BY __row)"
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {identifier(side)} AS {single}"
            f" UNION ALL SELECT {columns}, {copies} AS __copy FROM __left_{n}"
        )
    for table in ("__repeated", "__left_0", "__left_1"):
        connection.execute(f"DROP TABLE {table}")
    return near


def _order(layout: Layout) -> str:
    """Return the columns to sort by; those with a tolerance are last."""
    values = sorted(layout.values, key=lambda value: not value.exact)
    return ", ".join(identifier(value.name) for value in values) or "1"


def _remove_near(connection: duckdb.DuckDBPyConnection, layout: Layout) -> dict[str, int]:
    """Remove the largest possible number of pairs within all tolerances; count the cells equal only within them."""
    keys = ", ".join(map(identifier, layout.keys))
    names = [(value, identifier(value.name)) for value in layout.values]
    differs = ", ".join(value.differs(f"e.{name}", f"a.{name}") for value, name in names)
    expected_keys = ", ".join(f"e.{identifier(name)}" for name in layout.keys)
    sizes = f"SELECT {keys}, count(*) AS n FROM __left_{{}} GROUP BY {keys}"
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE __few AS SELECT {keys} FROM (SELECT e.*,"
        f" sum(e.n * a.n) OVER (ORDER BY e.n * a.n, {expected_keys}) AS __so_far"
        f" FROM ({sizes.format(0)}) e JOIN ({sizes.format(1)}) a ON {layout.same_key('e', 'a')})"
        f" WHERE __so_far <= {MOST_PAIRS}"
    )
    near = connection.execute(
        f"SELECT e.__row, a.__row FROM __left_0 e JOIN __few f ON {layout.same_key('e', 'f')}"
        f" JOIN __left_1 a ON {layout.same_key('e', 'a')} WHERE NOT list_contains([{differs}], true) ORDER BY 1, 2"
    ).fetchall()
    pairs = match_most(near)
    counts = _count_near(connection, layout, pairs)
    for n, rows in enumerate(([*pairs.keys()], [*pairs.values()])):
        connection.execute(f"DELETE FROM __left_{n} WHERE __row IN (SELECT unnest(?::BIGINT[]))", [rows])
    connection.execute("DROP TABLE __few")
    return counts


def _count_near(connection: duckdb.DuckDBPyConnection, layout: Layout, pairs: Mapping[int, int]) -> dict[str, int]:
    values = [value for value in layout.values if not value.exact]
    names = [identifier(value.name) for value in values]
    near_conditions = (value.is_within(f"e.{name}", f"a.{name}") for value, name in zip(values, names, strict=True))
    counts = ", ".join(map(count_where, near_conditions))
    paired = "(SELECT unnest(?::BIGINT[]) AS one, unnest(?::BIGINT[]) AS other)"
    row = connection.execute(
        f"SELECT {counts} FROM {paired} p JOIN __left_0 e ON e.__row = p.one JOIN __left_1 a ON a.__row = p.other",
        [[*pairs.keys()], [*pairs.values()]],
    ).fetchall()[0]
    return {value.name: int(count) for value, count in zip(values, row, strict=True)}


def match_most(near: Iterable[tuple[int, int]]) -> Mapping[int, int]:
    """Compute a maximum matching of two sides.

    Args:
        near: Pairs of numbers, one of each side, that can be matched.

    Source:
        Berge, Two theorems in graph theory, PNAS 43, 1957: a matching is maximum if no alternating path extends it.
    """
    candidates: dict[int, list[int]] = {}
    for first_number, second_number in near:
        candidates.setdefault(first_number, []).append(second_number)
    second_of, first_of = dict[int, int](), dict[int, int]()  # first side to second, and second to first
    for first_number in candidates:
        _add_pair(first_number, candidates, second_of, first_of)
    return second_of


def _add_pair(
    start: int, candidates: Mapping[int, list[int]], second_of: dict[int, int], first_of: dict[int, int]
) -> None:
    """Match a number of the first side, and rematch others along an alternating path if necessary."""
    reached_from: dict[int, int] = {}  # number of the second side -> number of the first from which it was reached
    waiting = deque([start])
    while waiting:
        first_number = waiting.popleft()
        for second_number in candidates[first_number]:
            if second_number in reached_from:
                continue
            reached_from[second_number] = first_number
            if second_number not in first_of:
                _pair_path(second_number, reached_from, second_of, first_of)
                return
            waiting.append(first_of[second_number])


def _pair_path(end: int, reached_from: Mapping[int, int], second_of: dict[int, int], first_of: dict[int, int]) -> None:
    """Match every number along a path with the one from which it was reached."""
    second_number: int | None = end
    while second_number is not None:
        first_number = reached_from[second_number]
        previous = second_of.get(first_number)
        second_of[first_number], first_of[second_number] = second_number, first_number
        second_number = previous
