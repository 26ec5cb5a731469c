"""Rows that differ only in how numbers are written, in columns of texts that hold other cells, too.

`1.0` and `1` are one number, and two texts. Where every cell of a column is a number they are compared as such, where
the type of the column is stated as that says. In between neither answer can be proven, so that such rows are no
evidence: they are not counted where other rows differ.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Collection
from dataclasses import dataclass, replace

import duckdb

from cutover.engine.queries import fetch_number
from cutover.quoting import identifier
from cutover.reconcile.comparison.diff import Diff
from cutover.reconcile.comparison.layout import Layout
from cutover.reconcile.external import cell_texts

_ORDERED_VALUES = 100
"""Values by which rows of one key are ordered: a query takes as long as its window has columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpelledRows:
    """Numbers of rows that were removed since they differ only in how numbers are written, and of some that were not.

    Under a key that is written otherwise on both sides a row is missing and another is extra.
    """

    changed: int = 0
    keys: int = 0  # pairs of a missing and an extra row
    unequal_keys: int = 0  # such pairs that differ in their values, too: not removed

    def subtract_from(self, diff: Diff) -> Diff:
        """Return a result without the removed rows."""
        return replace(
            diff,
            changed=diff.changed - self.changed,
            missing=diff.missing - self.keys,
            extra=diff.extra - self.keys,
        )


def is_all_spelling(connection: duckdb.DuckDBPyConnection, layout: Layout, texts: Collection[str]) -> bool:
    """Return whether some rows differ, and all of them only in how numbers are written.

    Args:
        connection: Holds the table `different`.
        layout: Of both sides.
        texts: Columns that are texts by inference, and of which some cells are plain decimals.
    """
    if not {*texts} & {*layout.columns} or not fetch_number(connection, "SELECT count(*) FROM different"):
        return False
    _pair_rows(connection, layout, texts, kinds=("changed", "missing", "extra"))
    paired = fetch_number(connection, "SELECT count(*) FROM spelled WHERE is_equal")
    rows_by_side = (f"SELECT count(*) FROM different WHERE __diff <> '{only}'" for only in ("extra", "missing"))
    return all(fetch_number(connection, query) == paired for query in rows_by_side)


def drop_spelled_rows(connection: duckdb.DuckDBPyConnection, layout: Layout, texts: Collection[str]) -> SpelledRows:
    """Remove rows that differ only in how numbers are written from `different`, and count them.

    Args:
        connection: Holds the table `different`.
        layout: Of both sides.
        texts: Columns that are texts by inference, and of which some cells are plain decimals.
    """
    if not {*texts} & {*layout.columns}:
        return SpelledRows()
    _pair_rows(connection, layout, texts, kinds=("missing", "extra"))
    pairs, equal = (
        fetch_number(connection, f"SELECT count(*) FROM spelled WHERE {condition}")
        for condition in ("true", "is_equal")
    )
    connection.execute(
        "DELETE FROM different WHERE rowid IN (SELECT unnest([expected, actual]) FROM spelled WHERE is_equal)"
    )
    flags = _changed_flags(layout, texts)
    changes = ", ".join(f"__d{n} = {flag}" for n, flag in enumerate(flags) if flag != f"__d{n}")
    if changes:
        connection.execute(f"UPDATE different SET {changes} WHERE __diff = 'changed'")
    unchanged = f"__diff = 'changed' AND NOT ({_is_any([f'__d{n}' for n in range(len(flags))])})"
    changed = fetch_number(connection, f"SELECT count(*) FROM different WHERE {unchanged}")
    connection.execute(f"DELETE FROM different WHERE {unchanged}")
    return SpelledRows(changed=changed, keys=equal, unequal_keys=pairs - equal)


def _changed_flags(layout: Layout, texts: Collection[str]) -> list[str]:
    """Return SQL, for each value, that is true where it differs in more than how a number is written."""
    return [
        f"(__d{n} AND {_normalize(f'__e{n}', is_text=True)} IS DISTINCT FROM {_normalize(f'__a{n}', is_text=True)})"
        if value.name in texts
        else f"__d{n}"
        for n, value in enumerate(layout.values)
    ]


def _is_any(flags: Collection[str]) -> str:
    return f"list_contains([{', '.join(flags)}], true)" if flags else "false"


def _pair_rows(
    connection: duckdb.DuckDBPyConnection, layout: Layout, texts: Collection[str], *, kinds: Collection[str]
) -> None:
    """Make the table `spelled`: different rows of the expected side, each with one of the actual side.

    Their keys are the same in normal form. Rows of one key are paired in the order of their values, those with a
    tolerance last.

    Args:
        connection: Holds the table `different`.
        layout: Of both sides.
        texts: Columns whose values are brought to normal form.
        kinds: Of the rows in `different`: those of both sides are paired apart from their kind.
    """
    keys = [_normalize(identifier(name), is_text=name in texts) for name in layout.keys]
    ordered = sorted(range(len(layout.values)), key=lambda n: not layout.values[n].exact)[:_ORDERED_VALUES]
    sides = []
    for side, only in (("e", "extra"), ("a", "missing")):
        values = [_read_value(layout, texts, side, n) for n in ordered]
        rank = f"row_number() OVER (PARTITION BY {', '.join(keys)} ORDER BY {', '.join([*values, 'rowid'])})"
        columns = ", ".join(f"{key} AS key_{n}" for n, key in enumerate([*keys, rank]))
        kinds_of_side = ", ".join(f"'{kind}'" for kind in kinds if kind != only)
        sides.append(f"(SELECT rowid AS place, {columns} FROM different WHERE __diff IN ({kinds_of_side}))")
    same_key = " AND ".join(f"l.key_{n} IS NOT DISTINCT FROM r.key_{n}" for n in range(len(keys) + 1))
    differs = _is_any(
        [
            value.differs(_read_value(layout, texts, "e", n, "e."), _read_value(layout, texts, "a", n, "a."))
            for n, value in enumerate(layout.values)
        ]
    )
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE spelled AS"
        f" SELECT e.rowid AS expected, a.rowid AS actual, NOT {differs} AS is_equal"
        f" FROM {sides[0]} l JOIN {sides[1]} r ON {same_key}"
        " JOIN different e ON e.rowid = l.place JOIN different a ON a.rowid = r.place"
    )


def _read_value(layout: Layout, texts: Collection[str], side: str, n: int, table: str = "") -> str:
    """Return SQL of a value in normal form; one that is within its tolerance is that of the expected side on both."""
    value = f"CASE WHEN {table}__diff = 'changed' AND NOT {table}__d{n} THEN {table}__e{n} ELSE {table}__{side}{n} END"
    return _normalize(value, is_text=layout.values[n].name in texts)


def _normalize(value: str, *, is_text: bool) -> str:
    return cell_texts.normalize_number(value) if is_text else value
