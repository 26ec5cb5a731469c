"""Comparison of a dimension's new rows with the current version: rows that are lost need a confirmation.

Both paths join the same version of a dimension, so no comparison reveals rows that both lose by a wrong file.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import duckdb
from deltalake import DeltaTable

from cutover.counts import count_noun
from cutover.errors import DefinitionError, LakeError
from cutover.lake.tables import delta
from cutover.quoting import identifier

CURRENT = "current_rows"
LEAST_LOST = 0.01
"""Share of the rows from which on lost values of one column count, unless it loses all."""

MOST_LOST = 0.5
"""A new version may lack less than this share of rows, keys, or values of a column without a confirmation."""

VERSIONS = 10
"""So many latest versions are compared by their rows, so that several small losses need a confirmation too."""

ROWS, CONFIRMED = "cutover.rows", "cutover.confirmed"
"""Keys of a commit's metadata: number of rows of the version; present if it was written without a comparison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRows:
    """Relation that will be the next version of a dimension."""

    dimension: str
    place: str  # dimension and source, for messages
    source: str  # name of a file, or the version that it copies
    relation: str
    columns: Mapping[str, str]  # name -> type
    key: Sequence[str]  # columns whose values are unique
    joined: Sequence[Sequence[str]]  # columns by which pipelines join, a tuple each, and the key of the version before


def check_replacement(connection: duckdb.DuckDBPyConnection, table: DeltaTable | None, new: NewRows) -> None:
    """Check that new rows are not empty and do not lack most rows, keys or values of the current version.

    Args:
        connection: Has the relation.
        table: The current version; None: the dimension does not exist yet.
        new: Rows that will replace it.

    Raises:
        DefinitionError: They lack too much; names both numbers of rows. Nothing was written.
        LakeError: The current version cannot be read.
    """
    rows = _count(connection, new.relation)
    losses = [] if rows else ["it has no rows"]
    current_rows = 0
    if table is not None:
        _bind_current(connection, table)
        with delta.naming(table):
            current_rows = _count(connection, CURRENT)
            losses += _list_losses(connection, current_rows, rows, new) if rows else []
            losses = losses or list(_find_gradual_loss(table, rows))
    if not losses:
        return
    current_text = (
        "no previous version" if table is None else f"version {table.version()} has {count_noun(current_rows, 'row')}"
    )
    msg = (
        f"{new.place}: expected rows like the current ones ({current_text}), got "
        f"{count_noun(rows, 'row')}: {'; '.join(losses)}."
    )
    hint = f"\nHint: nothing was written. `cutover dimension show {new.dimension}` lists what is loaded; with "
    raise DefinitionError(msg + hint + "`--confirm` this replaces it.")


def _bind_current(connection: duckdb.DuckDBPyConnection, table: DeltaTable) -> None:
    try:
        delta.bind(connection, CURRENT, table)
    except LakeError as error:
        msg = f"{error.text}\nHint: nothing was written; `--confirm` replaces it without a comparison."
        raise LakeError(msg, runbook=error.runbook) from error


def _count(connection: duckdb.DuckDBPyConnection, relation: str) -> int:
    (number,) = connection.execute(f"SELECT count(*) FROM {identifier(relation)}").fetchall()[0]  # noqa: S608 -- quoted
    return int(number)


def _list_losses(connection: duckdb.DuckDBPyConnection, current_rows: int, rows: int, new: NewRows) -> Iterator[str]:
    if _is_mostly_lost(current_rows, rows):
        yield f"{count_noun(current_rows - rows, 'row')} fewer"
    columns = {str(row[0]) for row in connection.execute(f"DESCRIBE {CURRENT}").fetchall()}
    keys = [key for key in dict.fromkeys(map(tuple, (new.key, *new.joined))) if key and set(key) <= columns]
    for key in keys:
        yield from _find_lost_keys(connection, new.relation, key)
    if not keys:
        yield from _find_other_rows(connection, new.relation, sorted(columns & set(new.columns)))
    yield from _find_lost_values(connection, new.relation, [column for column in new.columns if column in columns])


def _find_gradual_loss(table: DeltaTable, rows: int) -> Iterator[str]:
    """Yield the loss of rows since the largest of the latest versions; none is older than a confirmed one."""
    largest_rows = largest_version = 0
    newer_rows = rows
    for entry in islice((entry for entry in delta.list_commits(table) if ROWS in entry), VERSIONS):
        entry_rows = int(entry[ROWS])
        if largest_rows and _is_mostly_lost(entry_rows, newer_rows):
            break  # the newer version was confirmed, or it would not be there
        newer_rows = entry_rows
        if entry_rows > largest_rows:
            largest_rows, largest_version = entry_rows, int(entry["version"])
        if CONFIRMED in entry:
            break
    if _is_mostly_lost(largest_rows, rows):
        yield f"{count_noun(largest_rows - rows, 'row')} fewer than version {largest_version}"


def _is_mostly_lost(before: float, after: float) -> bool:
    return before - after >= MOST_LOST * before > 0


def _find_lost_keys(connection: duckdb.DuckDBPyConnection, relation: str, key: Sequence[str]) -> Iterator[str]:
    columns = ", ".join(map(identifier, key))
    old = f"SELECT DISTINCT {columns} FROM {CURRENT}"  # noqa: S608 -- quoted
    lost_count = f"SELECT count(*) FROM ({old} EXCEPT SELECT {columns} FROM {identifier(relation)})"  # noqa: S608 -- quoted
    missing, all_keys = connection.execute(f"SELECT ({lost_count}), (SELECT count(*) FROM ({old}))").fetchall()[0]  # noqa: S608
    if missing >= MOST_LOST * all_keys > 0:
        yield f"{missing:,} of {count_noun(all_keys, 'key')} ({', '.join(key)}) are not in it"


def _find_other_rows(connection: duckdb.DuckDBPyConnection, relation: str, columns: Sequence[str]) -> Iterator[str]:
    """Yield a loss if no column keeps half of its values: in a dimension without a key, any column may identify rows.

    If any columns have unique values, only these count.
    """
    counts = ", ".join(f"count(DISTINCT {identifier(column)})" for column in columns)
    total, *distinct = connection.execute(f"SELECT count(*), {counts} FROM {CURRENT}").fetchall()[0]  # noqa: S608
    unique = [column for column, values in zip(columns, distinct, strict=True) if values == total]
    losses = [list(_find_lost_keys(connection, relation, (column,))) for column in unique or columns]
    if losses and all(losses):
        yield from losses[0]


def _find_lost_values(connection: duckdb.DuckDBPyConnection, relation: str, columns: Sequence[str]) -> Iterator[str]:
    """Yield the columns that keep too few of their values, unless only whole rows are fewer."""
    counts = ", ".join(["count(*)", *(f"count({identifier(column)})" for column in columns)])
    current_rows, *old_counts = connection.execute(f"SELECT {counts} FROM {CURRENT}").fetchall()[0]  # noqa: S608
    rows, *new_counts = connection.execute(f"SELECT {counts} FROM {identifier(relation)}").fetchall()[0]  # noqa: S608
    share = rows / current_rows if _is_mostly_lost(current_rows, rows) else 1  # of the rows: their loss is named
    for column, before, after in zip(columns, old_counts, new_counts, strict=True):
        is_common = before - after >= LEAST_LOST * current_rows  # few cells of a sparse column may change
        if _is_mostly_lost(before * share, after) and (is_common or not after):
            yield f"column `{column}` had {count_noun(before, 'value')} and has {after:,}"
