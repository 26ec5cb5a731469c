"""Comparison of a dimension's new rows with the version in force: what is empty, shrunk or emptied asks first.

Both paths join the same version of a dimension, so no comparison shows rows that a wrong file takes from both.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import duckdb
from deltalake import DeltaTable

from cutover.errors import DefinitionError, LakeError
from cutover.lake.tables import delta
from cutover.quoting import identifier

BEFORE = "before"
MOST_LOST = 0.5
"""Share of the rows, or of the keys, that a new version may lack without a confirmation; less than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRows:
    """Relation that is to be the next version of a dimension."""

    dimension: str
    place: str  # what is to be replaced by what, for messages
    source: str  # a file's name, or the version that it is a copy of
    relation: str
    columns: Mapping[str, str]  # name -> type
    key: Sequence[str]  # columns whose values are unique
    joined: Sequence[Sequence[str]]  # columns by which pipelines join, a tuple each, and the key of the version before


def check_replacement(connection: duckdb.DuckDBPyConnection, table: DeltaTable | None, new: NewRows) -> None:
    """Reject rows that are none, or that lack much of what the version in force holds.

    Args:
        connection: Where the relation is.
        table: The version in force; None: there is none.
        new: What is to take its place.

    Raises:
        DefinitionError: Names the rows before and after; nothing was written.
        LakeError: The version in force cannot be read.
    """
    rows = _count(connection, new.relation)
    losses = [] if rows else ["it has no rows"]
    before = 0
    if table is not None:
        _bind_in_force(connection, table)
        with delta.naming(table):
            before = _count(connection, BEFORE)
            losses += _list_losses(connection, before, rows, new) if rows else []
    if not losses:
        return
    of_before = "there is no version before" if table is None else f"version {table.version()} has {before:,} rows"
    msg = f"{new.place}: expected rows like those in force ({of_before}), got {rows:,} rows: {'; '.join(losses)}."
    hint = f"\nHint: nothing was written. `cutover dimension show {new.dimension}` lists what is loaded; with "
    raise DefinitionError(msg + hint + "`--confirm` this replaces it.")


def _bind_in_force(connection: duckdb.DuckDBPyConnection, table: DeltaTable) -> None:
    try:
        delta.bind(connection, BEFORE, table)
    except LakeError as error:
        msg = f"{error.text}\nHint: nothing was written; `--confirm` replaces it without a comparison."
        raise LakeError(msg, runbook=error.runbook) from error


def _count(connection: duckdb.DuckDBPyConnection, relation: str) -> int:
    (number,) = connection.execute(f"SELECT count(*) FROM {identifier(relation)}").fetchall()[0]  # noqa: S608 -- quoted
    return int(number)


def _list_losses(connection: duckdb.DuckDBPyConnection, before: int, rows: int, new: NewRows) -> Iterator[str]:
    if before - rows >= MOST_LOST * before > 0:
        yield f"{before - rows:,} rows fewer"
    there = {str(row[0]) for row in connection.execute(f"DESCRIBE {BEFORE}").fetchall()}
    keys = [key for key in dict.fromkeys(map(tuple, (new.key, *new.joined))) if key and set(key) <= there]
    for key in keys:
        yield from _find_lost_keys(connection, new.relation, key)
    if not keys:
        yield from _find_other_rows(connection, new.relation, sorted(there & set(new.columns)))
    for column in new.columns:
        if column in there and _is_emptied(connection, new.relation, column):
            yield f"column `{column}` has no value any more"


def _find_lost_keys(connection: duckdb.DuckDBPyConnection, after: str, key: Sequence[str]) -> Iterator[str]:
    named = ", ".join(map(identifier, key))
    old = f"SELECT DISTINCT {named} FROM {BEFORE}"  # noqa: S608 -- quoted
    lost = f"SELECT count(*) FROM ({old} EXCEPT SELECT {named} FROM {identifier(after)})"  # noqa: S608 -- quoted
    missing, all_keys = connection.execute(f"SELECT ({lost}), (SELECT count(*) FROM ({old}))").fetchall()[0]  # noqa: S608
    if missing >= MOST_LOST * all_keys > 0:
        yield f"{missing:,} of {all_keys:,} keys ({', '.join(key)}) are not in it"


def _find_other_rows(connection: duckdb.DuckDBPyConnection, after: str, columns: Sequence[str]) -> Iterator[str]:
    """Yield that no column keeps half of its values: of a dimension without a key, any of them may be what identifies.

    Columns whose values are unique count alone, if there are any.
    """
    counted = ", ".join(f"count(DISTINCT {identifier(column)})" for column in columns)
    total, *distinct = connection.execute(f"SELECT count(*), {counted} FROM {BEFORE}").fetchall()[0]  # noqa: S608
    unique = [column for column, values in zip(columns, distinct, strict=True) if values == total]
    lost = [list(_find_lost_keys(connection, after, (column,))) for column in unique or columns]
    if lost and all(lost):
        yield from lost[0]


def _is_emptied(connection: duckdb.DuckDBPyConnection, after: str, column: str) -> bool:
    """Return whether a column had values and has none."""
    cell = identifier(column)
    query = f"SELECT (SELECT count({cell}) FROM {BEFORE}), (SELECT count({cell}) FROM {identifier(after)})"  # noqa: S608
    had, has = connection.execute(query).fetchall()[0]
    return bool(had and not has)
