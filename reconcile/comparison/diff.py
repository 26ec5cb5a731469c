"""Keyed diff of the groups whose digests differ: a null-safe full join with indicators, as multisets of rows.

The result has the layout's keys and component, `__diff` (missing: only the expected side has the row; extra: only the
actual side; changed), `__copy` (2 and up: an additional row with the same key), and per value number i `__e<i>`,
`__a<i>` (both sides) and `__d<i>` (they differ).
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from time import monotonic

import duckdb

from cutover.engine.queries import count_where, fetch_number, fetch_row
from cutover.quoting import identifier
from cutover.reconcile.comparison.digests import Digests, differing_groups
from cutover.reconcile.comparison.layout import Layout
from cutover.reconcile.comparison.pairing import pair_rows


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


WHOLE = Budget()
FIRST_CHUNK = 16
"""Number of groups that are joined before a budget is checked for the first time."""


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


def diff_relations(  # noqa: PLR0913 -- two relations and their digests
    connection: duckdb.DuckDBPyConnection,
    layout: Layout,
    expected: str,
    actual: str,
    *,
    into: str,
    budget: Budget = WHOLE,
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
    values = [value for value in layout.values if not value.exact]
    if not values:
        return {}
    on = f"{layout.same_key('e', 'a')} AND e.__copy = a.__copy"
    names = [identifier(value.name) for value in values]
    near_conditions = (value.is_within(f"e.{name}", f"a.{name}") for value, name in zip(values, names, strict=True))
    counts = ", ".join(map(count_where, near_conditions))
    row = fetch_row(
        connection, f"SELECT {counts} FROM {identifier(f'{into}_0')} e JOIN {identifier(f'{into}_1')} a ON {on}"
    )
    return {value.name: int(count) for value, count in zip(values, row, strict=True)}


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
