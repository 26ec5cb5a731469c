"""Rows that differ only in how numbers are written, in columns of texts that hold other cells, too.

`1.0` and `1` are one number, and two texts. Where every cell of a column is a number they are compared as such, where
the type of the column is stated as that says. In between neither answer can be proven, so that such rows are no
evidence: they are not counted where other rows differ.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Collection

import duckdb

from cutover.engine.queries import number
from cutover.quoting import identifier
from cutover.reconcile.comparison.layout import Layout
from cutover.reconcile.external import cell_texts


def is_all_spelling(connection: duckdb.DuckDBPyConnection, layout: Layout, texts: Collection[str]) -> bool:
    """Return whether some rows differ, and all of them only in how numbers are written.

    Args:
        connection: Holds the table `different`.
        layout: Of both sides.
        texts: Columns that are texts by inference, and of which some cells are plain decimals.
    """
    if not {*texts} & {*layout.columns} or not number(connection, "SELECT count(*) FROM different"):
        return False
    sides = [_select(layout, texts, side, only) for side, only in (("e", "extra"), ("a", "missing"))]
    unequal_rows = " UNION ALL ".join(
        f"({left_rows} EXCEPT ALL {right_rows})" for left_rows, right_rows in (sides, sides[::-1])
    )
    return not number(connection, f"SELECT count(*) FROM ({unequal_rows})")


def drop_spelled_rows(connection: duckdb.DuckDBPyConnection, layout: Layout, texts: Collection[str]) -> int:
    """Remove pairs of rows that differ only in how numbers are written from `different`; return how many there were.

    Args:
        connection: Holds the table `different`.
        layout: Of both sides.
        texts: Columns that are texts by inference, and of which some cells are plain decimals.
    """
    places = [n for n, value in enumerate(layout.values) if value.name in texts]
    if not places:
        return 0
    pairs = {n: tuple(_normalize(f"__{side}{n}", is_text=True) for side in ("e", "a")) for n in places}
    changes = ", ".join(f"__d{n} = __d{n} AND {left} IS DISTINCT FROM {right}" for n, (left, right) in pairs.items())
    connection.execute(f"UPDATE different SET {changes} WHERE __diff = 'changed'")
    flags = ", ".join(f"__d{n}" for n in range(len(layout.values)))
    equal = f"__diff = 'changed' AND NOT list_contains([{flags}], true)"
    dropped = number(connection, f"SELECT count(*) FROM different WHERE {equal}")
    connection.execute(f"DELETE FROM different WHERE {equal}")
    return dropped


def _select(layout: Layout, texts: Collection[str], side: str, only: str) -> str:
    """Return the query of the rows of one side, with the values that differ and no others."""
    keys = [_normalize(identifier(name), is_text=name in texts) for name in layout.keys]
    values = [
        f"CASE WHEN __diff <> 'changed' OR __d{n} THEN {_normalize(f'__{side}{n}', is_text=value.name in texts)} END"
        for n, value in enumerate(layout.values)
    ]
    return f"SELECT {', '.join([*keys, *values])} FROM different WHERE __diff <> '{only}'"


def _normalize(value: str, *, is_text: bool) -> str:
    return cell_texts.normalize_number(value) if is_text else value
