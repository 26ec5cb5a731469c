"""Which rows of one key belong together where it has several on a side: equal ones, near ones, then those in order.

Rows are a multiset. So equal rows go first, one for one; of what is left as many as can be within their tolerances;
only the rest is told apart, in the order of its values. Order alone would not do: it calls near rows different where
a column with a tolerance sorts them otherwise, and one further row would move all that follow.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections import deque
from collections.abc import Iterable, Mapping

import duckdb

from cutover.engine.queries import count_where
from cutover.quoting import identifier
from cutover.reconcile.comparison.layout import Layout

MOST_PAIRS = 1_000_000
"""Candidates that are looked at for near pairs; beyond, keys with the most rows have theirs in order."""


def pair_rows(connection: duckdb.DuckDBPyConnection, layout: Layout, sides: tuple[str, str]) -> Mapping[str, int]:
    """Take pairs of equal and near rows of repeated keys out of two tables, and number what is left in `__copy`.

    Returns the cells of each column that only its tolerance makes equal, in the pairs that were taken out.

    Args:
        connection: Holds both tables, with the layout's columns and `__copy` = 1.
        layout: Of both.
        sides: The expected table first.
    """
    keys = ", ".join(map(identifier, layout.keys))
    columns = ", ".join(map(identifier, layout.columns))
    repeated = " UNION ".join(
        f"SELECT {keys} FROM {identifier(side)} GROUP BY {keys} HAVING count(*) > 1" for side in sides
    )
    connection.execute(f"CREATE OR REPLACE TEMP TABLE __repeated AS {repeated}")
    chosen = [
        f"SELECT {columns} FROM {identifier(side)} t SEMI JOIN __repeated r ON {layout.same_key('t', 'r')}"
        for side in sides
    ]
    order = _order(layout)
    for n, (ours, theirs) in enumerate(((chosen[0], chosen[1]), (chosen[1], chosen[0]))):
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE __left_{n} AS SELECT *, row_number() OVER (ORDER BY {keys}, {order})"
            f" AS __row FROM ({ours} EXCEPT ALL {theirs})"
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
    """Return columns to sort by: a column with a tolerance decides last which rows stand beside one another."""
    values = sorted(layout.values, key=lambda value: not value.exact)
    return ", ".join(identifier(value.name) for value in values) or "1"


def _remove_near(connection: duckdb.DuckDBPyConnection, layout: Layout) -> dict[str, int]:
    """Remove as many pairs within all tolerances as there can be; count the cells that these make equal."""
    keys = ", ".join(map(identifier, layout.keys))
    names = [(value, identifier(value.name)) for value in layout.values]
    differs = ", ".join(value.differs(f"e.{name}", f"a.{name}") for value, name in names)
    of = ", ".join(f"e.{identifier(name)}" for name in layout.keys)
    sizes = f"SELECT {keys}, count(*) AS n FROM __left_{{}} GROUP BY {keys}"
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE __few AS SELECT {keys} FROM (SELECT e.*,"
        f" sum(e.n * a.n) OVER (ORDER BY e.n * a.n, {of}) AS __so_far"
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
    within = (value.is_within(f"e.{name}", f"a.{name}") for value, name in zip(values, names, strict=True))
    counts = ", ".join(map(count_where, within))
    paired = "(SELECT unnest(?::BIGINT[]) AS one, unnest(?::BIGINT[]) AS other)"
    row = connection.execute(
        f"SELECT {counts} FROM {paired} p JOIN __left_0 e ON e.__row = p.one JOIN __left_1 a ON a.__row = p.other",
        [[*pairs.keys()], [*pairs.values()]],
    ).fetchall()[0]
    return {value.name: int(count) for value, count in zip(values, row, strict=True)}


def match_most(near: Iterable[tuple[int, int]]) -> Mapping[int, int]:
    """Return as many pairs as there can be, no number in two of them.

    Args:
        near: Pairs of numbers of two sides that may belong together.

    Source:
        Berge, Two theorems in graph theory, PNAS 43, 1957: pairs are the most if no alternating path adds one.
    """
    others: dict[int, list[int]] = {}
    for one, other in near:
        others.setdefault(one, []).append(other)
    given, taken = dict[int, int](), dict[int, int]()  # first to second, and second to first
    for one in others:
        _add_pair(one, others, given, taken)
    return given


def _add_pair(start: int, others: Mapping[int, list[int]], given: dict[int, int], taken: dict[int, int]) -> None:
    """Give a number of the first side a partner, others theirs anew where that helps."""
    came: dict[int, int] = {}  # a number of the second side, to that of the first which it was reached from
    waiting = deque([start])
    while waiting:
        one = waiting.popleft()
        for other in others[one]:
            if other in came:
                continue
            came[other] = one
            if other not in taken:
                _pair_path(other, came, given, taken)
                return
            waiting.append(taken[other])


def _pair_path(end: int, came: Mapping[int, int], given: dict[int, int], taken: dict[int, int]) -> None:
    """Pair every number along a path with the one that reached it."""
    other: int | None = end
    while other is not None:
        one = came[other]
        before = given.get(one)
        given[one], taken[other] = other, one
        other = before
