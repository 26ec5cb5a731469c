"""Keyed diff of the groups whose digests differ: a null-safe full join with indicators, as multisets of rows.

The result has the layout's keys and component, `__diff` (missing: only the expected side has the row; extra: only the
actual side; changed), `__copy` (2 and up: an additional row with the same key), and per value number i `__e<i>`,
`__a<i>` (both sides) and `__d<i>` (they differ).

Of rows with the same key, equal rows are paired one to one; of the remaining rows, as many as possible are paired
within their tolerances; only the others differ, in the order of their values. Order alone is not sufficient: near rows
would differ if a column with a tolerance sorts them differently, and one additional row would shift all following ones.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic

import duckdb

from cutover.engine.queries import count_where, fetch_number, fetch_row
from cutover.quoting import identifier
from cutover.reconcile.comparison.digests import Digests, differing_groups
from cutover.reconcile.comparison.layout import Layout
from cutover.reconcile.result.finding import Apart

MOST_PAIRS = 1_000_000
"""Maximum number of candidates for near pairs; beyond it, keys with the most rows are paired in order."""
FIRST_CHUNK = 16
"""Number of groups that are joined before a budget is checked for the first time."""

QUANTILE_SHARES = (0.5, 0.9, 0.99)
_COLUMNS_A_QUERY = 50
"""Columns of which one query counts near cells: the time to plan it grows with the square of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits of rows found and seconds taken, after which a comparison ends early; None: no limit."""

    rows: int | None = None
    seconds: float | None = None

    @property
    def is_limited(self) -> bool:
        """Return whether a comparison may end early."""
        return self.rows is not None or self.seconds is not None

    def is_spent(self, rows: int, start_time: float) -> bool:
        """Return whether a limit is reached.

        Args:
            rows: Different rows so far.
            start_time: `time.monotonic()` at the start.
        """
        too_many = self.rows is not None and rows >= self.rows
        return too_many or (self.seconds is not None and monotonic() - start_time >= self.seconds)


NO_BUDGET = Budget()


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """Numbers of compared and joined groups, and of rows that differ."""

    groups: int
    joined: int
    unfinished: int = 0  # groups whose digests differ and that were skipped because of a budget
    missing: int
    extra: int
    changed: int
    duplicates_expected: int  # keys that occur more than once, in joined groups
    duplicates_actual: int
    near: Mapping[str, int] = field(default_factory=dict)  # column -> cells that only its tolerance makes equal

    @property
    def rows(self) -> int:
        """Add up missing, extra and changed rows."""
        return self.missing + self.extra + self.changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Column of numbers in a table of differences."""

    name: str
    expected: str  # SQL
    actual: str  # SQL
    differs: str  # SQL: the two differ


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
    counts = _count_near_pairs(connection, layout, pairs)
    for n, rows in enumerate(([*pairs.keys()], [*pairs.values()])):
        connection.execute(f"DELETE FROM __left_{n} WHERE __row IN (SELECT unnest(?::BIGINT[]))", [rows])
    connection.execute("DROP TABLE __few")
    return counts


def _count_near_pairs(
    connection: duckdb.DuckDBPyConnection, layout: Layout, pairs: Mapping[int, int]
) -> dict[str, int]:
    paired = "(SELECT unnest(?::BIGINT[]) AS one, unnest(?::BIGINT[]) AS other)"
    relation = f"{paired} p JOIN __left_0 e ON e.__row = p.one JOIN __left_1 a ON a.__row = p.other"
    return _count_near_cells(connection, layout, relation, [[*pairs.keys()], [*pairs.values()]])


def _count_near_cells(
    connection: duckdb.DuckDBPyConnection, layout: Layout, relation: str, parameters: object = None
) -> dict[str, int]:
    """Count the cells of each column that are equal only within its tolerance, in rows `e` and `a` of a relation."""
    values = [value for value in layout.values if not value.exact]
    counts: dict[str, int] = {}
    for start in range(0, len(values), _COLUMNS_A_QUERY):
        batch = {value.name: value for value in values[start : start + _COLUMNS_A_QUERY]}
        names = map(identifier, batch)
        near_conditions = (
            value.is_within(f"e.{name}", f"a.{name}") for name, value in zip(names, batch.values(), strict=True)
        )
        query = f"SELECT {', '.join(map(count_where, near_conditions))} FROM {relation}"
        counts |= zip(batch, map(int, connection.execute(query, parameters).fetchall()[0]), strict=True)
    return counts


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


def diff_relations(  # noqa: PLR0913 -- two relations and their digests
    connection: duckdb.DuckDBPyConnection,
    layout: Layout,
    expected: str,
    actual: str,
    *,
    into: str,
    budget: Budget = NO_BUDGET,
    digests: Digests | None = None,
    counts_near: bool = False,
) -> Diff:
    """Create the temporary table `into` of all rows in which two relations differ, and count them.

    With a budget, groups are joined in order, in growing chunks, until it is spent. Precomputed digests must have their
    groups in `<into>_groups`; the relations then need rows of these groups only. Cells that are equal only within a
    tolerance are counted if `counts_near` is set.
    """
    start_time, groups = monotonic(), f"{into}_groups"
    digests = digests or differing_groups(connection, layout, expected, actual, into=groups)
    repeated_keys, repeated_by_side, joined = Counter[int](), dict[int, int](), 0
    near = Counter[str]()
    for start, end in _chunks(digests.different, budget):
        chunk_table = f"{groups}_now"
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {identifier(chunk_table)} AS FROM {identifier(groups)} "
            f"ORDER BY _group, _bucket LIMIT {end - start} OFFSET {start}"
        )
        for n, side in enumerate((expected, actual)):
            repeated_by_side[n] = _side(connection, layout, side, chunk_table, f"{into}_{n}")
        if any(repeated_by_side.values()):
            near.update(pair_rows(connection, layout, (f"{into}_0", f"{into}_1")))
        repeated_keys.update(repeated_by_side)
        _join(connection, layout, into, append=start > 0)
        if counts_near:
            near.update(_count_near(connection, layout, into))
        joined = end
        if budget.is_limited and budget.is_spent(
            fetch_number(connection, f"SELECT count(*) FROM {identifier(into)}"), start_time
        ):
            break
    for part in (groups, f"{groups}_now", f"{into}_0", f"{into}_1"):
        connection.execute(f"DROP TABLE IF EXISTS {identifier(part)}")
    return Diff(
        groups=digests.groups,
        joined=joined,
        unfinished=digests.different - joined,
        duplicates_expected=repeated_keys[0],
        duplicates_actual=repeated_keys[1],
        near={name: count for name, count in near.items() if count},
        **_kinds(connection, into),
    )


def _chunks(groups: int, budget: Budget) -> Iterator[tuple[int, int]]:
    """Yield chunks `[first, end)` of differing groups: one chunk, or with a budget chunks of doubling size."""
    if not budget.is_limited or not groups:
        yield 0, groups
        return
    chunk_start, size = 0, FIRST_CHUNK
    while chunk_start < groups:
        end = min(chunk_start + size, groups)
        yield chunk_start, end
        chunk_start, size = end, size * 2


def _join(connection: duckdb.DuckDBPyConnection, layout: Layout, into: str, *, append: bool) -> None:
    """Write the rows that differ between both materialised sides to a table."""
    on = f"{layout.same_key('e', 'a')} AND e.__copy = a.__copy"
    to = f"INSERT INTO {identifier(into)}" if append else f"CREATE OR REPLACE TEMP TABLE {identifier(into)} AS"
    connection.execute(
        f"{to} SELECT {_columns(layout)} "
        f"FROM {identifier(f'{into}_0')} e FULL JOIN {identifier(f'{into}_1')} a ON {on} "
        f"WHERE e.__copy IS NULL OR a.__copy IS NULL OR {_any_differs(layout)}"
    )


def _count_near(connection: duckdb.DuckDBPyConnection, layout: Layout, into: str) -> dict[str, int]:
    """Count the cells that are equal only within a tolerance, in rows on both materialised sides."""
    on = f"{layout.same_key('e', 'a')} AND e.__copy = a.__copy"
    relation = f"{identifier(f'{into}_0')} e JOIN {identifier(f'{into}_1')} a ON {on}"
    return _count_near_cells(connection, layout, relation)


def _side(connection: duckdb.DuckDBPyConnection, layout: Layout, side: str, groups: str, into: str) -> int:
    """Materialise one side of the differing groups; return the number of keys with more than one row."""
    keys = ", ".join(map(identifier, layout.keys))
    columns = ", ".join(map(identifier, layout.columns))
    selected = (
        f"SELECT {columns} FROM (SELECT {columns}, {layout.group_sql} AS __of, {layout.bucket_sql} AS __part"
        f" FROM {identifier(side)}) t WHERE EXISTS (SELECT 1 FROM {identifier(groups)} g"
        " WHERE g._group IS NOT DISTINCT FROM t.__of AND g._bucket = t.__part)"
    )
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {identifier(into)} AS SELECT *, 1::BIGINT AS __copy FROM ({selected})"
    )
    repeats = f"SELECT count(*) FROM (SELECT 1 FROM {identifier(into)} GROUP BY {keys} HAVING count(*) > 1)"
    return fetch_number(connection, repeats)


def _columns(layout: Layout) -> str:
    names = map(identifier, (*layout.keys, *layout.further))
    keys = [f"CASE WHEN e.__copy IS NULL THEN a.{k} ELSE e.{k} END AS {k}" for k in names]
    kind = "CASE WHEN e.__copy IS NULL THEN 'extra' WHEN a.__copy IS NULL THEN 'missing' ELSE 'changed' END AS __diff"
    copy = "coalesce(e.__copy, a.__copy) AS __copy"
    values = [
        f"e.{identifier(v.name)} AS __e{n}, a.{identifier(v.name)} AS __a{n}, {_differs(layout, n)} AS __d{n}"
        for n, v in enumerate(layout.values)
    ]
    return ", ".join([*keys, kind, copy, *values])


def _differs(layout: Layout, number: int) -> str:
    value = layout.values[number]
    return value.differs(f"e.{identifier(value.name)}", f"a.{identifier(value.name)}")


def _any_differs(layout: Layout) -> str:
    """Return SQL that is true for a row in which any value differs; it uses a list, because OR may nest too deep."""
    return f"list_contains([{', '.join(_differs(layout, n) for n in range(len(layout.values))) or 'false'}], true)"


def _kinds(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, int]:
    rows = connection.execute(f"SELECT __diff, count(*) FROM {identifier(table)} GROUP BY 1").fetchall()
    return {"missing": 0, "extra": 0, "changed": 0} | {str(kind): int(count) for kind, count in rows}


def measure_distances(connection: duckdb.DuckDBPyConnection, relation: str, pairs: Sequence[Pair]) -> tuple[Apart, ...]:
    """Measure distance and direction for each column that differs in a row with a number on both sides.

    Percentiles are discrete (values that occur), so that no interpolation depends on the engine.

    Args:
        connection: Has the relation.
        relation: A table or a query in parentheses, one row for each row that differs.
        pairs: Columns of numbers.
    """
    return tuple(apart for pair in pairs if (apart := _measure(connection, relation, pair)) is not None)


def _measure(connection: duckdb.DuckDBPyConnection, relation: str, pair: Pair) -> Apart | None:
    size = "abs(d)"
    shares = ", ".join(map(str, QUANTILE_SHARES))
    left, right = (f"({side})::DOUBLE" for side in (pair.expected, pair.actual))
    # The values themselves decide which is larger: as doubles, large decimals may be equal.
    is_above = f"({pair.actual}) > ({pair.expected})"
    rows = f"SELECT {right} - {left} AS d, {is_above} AS is_above FROM {relation} WHERE {pair.differs}"
    count, above_count, percentiles, largest, total = fetch_row(
        connection,
        f"SELECT count(*), count(*) FILTER (is_above), quantile_disc({size}, [{shares}]), max({size}),"
        f" sum(d ORDER BY d) FROM ({rows}) WHERE isfinite(d)",
    )
    if not count:
        return None
    p50, p90, p99 = percentiles
    return Apart(
        column=pair.name,
        rows=int(count),
        above=int(above_count),
        mean=float(total) / int(count),
        p50=float(p50),
        p90=float(p90),
        p99=float(p99),
        largest=float(largest),
    )
