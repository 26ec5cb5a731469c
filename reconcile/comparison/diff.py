"""The keyed diff of what digests could not settle: a null-safe full join with indicators, as multisets of rows.

The result has the layout's keys and component, `__diff` (missing: only the expected side has the row; extra: only the
actual side; changed), `__copy` (2 and up: a further row of the same key), and per value number i `__e<i>`, `__a<i>`
(both sides) and `__d<i>` (they differ).
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from dataclasses import dataclass

import duckdb

from cutover.quoting import identifier
from cutover.reconcile.comparison.digests import differing_groups
from cutover.reconcile.comparison.layout import Layout
from cutover.reconcile.result.query import number


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """How many groups were compared, how many had to be joined, and how many rows differ."""

    groups: int
    joined: int
    missing: int
    extra: int
    changed: int
    duplicates_expected: int  # keys that occur more than once, in what was joined
    duplicates_actual: int

    @property
    def rows(self) -> int:
        """Add up missing, extra and changed rows."""
        return self.missing + self.extra + self.changed


def diff(connection: duckdb.DuckDBPyConnection, layout: Layout, expected: str, actual: str, *, into: str) -> Diff:
    """Make the temporary table `into` of all rows in which two relations differ, and count them."""
    groups = f"{into}_groups"
    digests = differing_groups(connection, layout, expected, actual, into=groups)
    doubled = tuple(_side(connection, layout, side, groups, f"{into}_{n}") for n, side in enumerate((expected, actual)))
    on = f"{layout.same_key('e', 'a')} AND e.__copy = a.__copy"
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {identifier(into)} AS SELECT {_columns(layout)} "
        f"FROM {identifier(f'{into}_0')} e FULL JOIN {identifier(f'{into}_1')} a ON {on} "
        f"WHERE e.__copy IS NULL OR a.__copy IS NULL OR {_any_differs(layout)}"
    )
    for part in (groups, f"{into}_0", f"{into}_1"):
        connection.execute(f"DROP TABLE {identifier(part)}")
    return Diff(
        groups=digests.groups,
        joined=digests.different,
        duplicates_expected=doubled[0],
        duplicates_actual=doubled[1],
        **_kinds(connection, into),
    )


def _side(connection: duckdb.DuckDBPyConnection, layout: Layout, side: str, groups: str, into: str) -> int:
    """Materialise one side of the differing groups, copies of a key numbered; return how many keys have some."""
    keys = ", ".join(map(identifier, layout.keys))
    columns = ", ".join(map(identifier, layout.columns))
    chosen = (
        f"SELECT {columns} FROM (SELECT {columns}, {layout.group_sql} AS __of FROM {identifier(side)}) t WHERE EXISTS "
        f"(SELECT 1 FROM {identifier(groups)} g WHERE g._group IS NOT DISTINCT FROM t.__of)"
    )
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {identifier(into)} AS SELECT *, 1::BIGINT AS __copy FROM ({chosen})"
    )
    repeats = f"SELECT count(*) FROM (SELECT 1 FROM {identifier(into)} GROUP BY {keys} HAVING count(*) > 1)"
    doubled = number(connection, repeats)
    if doubled:
        order = ", ".join(identifier(value.name) for value in layout.values) or "1"
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {identifier(into)} AS SELECT * EXCLUDE (__copy), "
            f"row_number() OVER (PARTITION BY {keys} ORDER BY {order}) AS __copy FROM {identifier(into)}"
        )
    return doubled


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
    return " OR ".join(_differs(layout, n) for n in range(len(layout.values))) or "false"


def _kinds(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, int]:
    rows = connection.execute(f"SELECT __diff, count(*) FROM {identifier(table)} GROUP BY 1").fetchall()
    return {"missing": 0, "extra": 0, "changed": 0} | {str(kind): int(count) for kind, count in rows}
