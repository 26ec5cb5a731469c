"""Rows that differ only in how numbers are written, in columns of texts that hold other cells, too.

`1.0` and `1` are one number, and two texts. Where every cell of a column is a number they are compared as such, where
the type of the column is stated as that says. In between neither answer can be proven.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Collection

import duckdb

from cutover.engine.queries import number
from cutover.quoting import identifier
from cutover.reconcile.comparison.layout import Layout
from cutover.reconcile.external import cell_texts


def is_all_spelling(connection: duckdb.DuckDBPyConnection, layout: Layout, texts: Collection[str]) -> bool:
    """Return whether some rows differ, and none of them once numbers have one way to be written.

    Args:
        connection: Holds the table `different`.
        layout: Of both sides.
        texts: Columns that are texts by inference, and of which some cells are plain decimals.
    """
    if not {*texts} & {*layout.columns} or not number(connection, "SELECT count(*) FROM different"):
        return False
    sides = [_select(layout, texts, side, only) for side, only in (("e", "extra"), ("a", "missing"))]
    apart = " UNION ALL ".join(f"({one} EXCEPT ALL {other})" for one, other in (sides, sides[::-1]))
    return not number(connection, f"SELECT count(*) FROM ({apart})")


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
