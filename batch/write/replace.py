"""Replacement of windows of the batch table in one commit: files with some of them are rewritten, empty ones removed.

Files are written here, not by delta-rs, so that their names carry the checksum of their bytes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.transaction import AddAction

from cutover.counts import count_noun
from cutover.engine import queries
from cutover.errors import LakeError
from cutover.events import log
from cutover.lake.batch_runs import Range
from cutover.lake.integrity.foreign_commits import TableChange
from cutover.lake.tables import checksums, commits, data_files, delta, delta_log
from cutover.quoting import identifier

ROLLED_BACK = {"userMetadata": "rows of a run that was never recorded"}
ROWS = 1_000_000  # of a file: what has to be read to replace one window of it
_INSIDE = "epoch_us(window_start) >= r.first AND epoch_us(window_end) <= r.last"


def replace_windows(
    table: DeltaTable,
    rows: pa.Table,
    ranges: Sequence[Range],
    *,
    of: str,
    instead_of: pa.Table | None = None,
    commit: CommitProperties | None = None,
) -> int:
    """Replace the windows that lie wholly inside the ranges by `rows`.

    Args:
        table: The batch table.
        rows: Rows of windows inside the ranges; every one of these windows without a row is cleared.
        ranges: `[first window start, last window end)` in microseconds, ascending, disjoint.
        of: Name of the new file.
        instead_of: Rows of other windows that replace those of the table; None: these stay.
        commit: Metadata of the commit.

    Returns:
        The version that this commit created; the current version if there was nothing to replace.

    Raises:
        LakeError: A row lies outside the ranges, a file of the table is missing or was changed, or the table cannot
            be written.
    """
    _reject_outside(table, rows, ranges)
    if not ranges and instead_of is None:
        return int(table.version())
    is_same = delta.read_schema(table).names == rows.schema.names
    with commits.converting_write_errors(table.table_uri):
        if instead_of is not None or not is_same:
            # Another kind of batch side has other columns: rows that it does not compute keep the common columns.
            kept_rows = instead_of
            if kept_rows is None:
                kept_rows = read_rows_outside(table, delta.actions(table), rows.schema, ranges)
            files = _write_files(table, pa.concat_tables([rows, kept_rows]), of)
            commits.overwrite(table, files, Schema.from_arrow(rows.schema), commit=commit)
            return int(table.version())
        touched = _list_touched_files(table, ranges)
        kept_rows = read_rows_outside(table, touched, rows.schema, ranges)
        files = _write_files(table, pa.concat_tables([rows, kept_rows]), of)
        commits.replace(table, touched, files, commit=commit)
    return int(table.version())


def roll_back_unfinished_run(table: DeltaTable, table_change: TableChange) -> None:
    """Restore the files of the latest recorded run in one commit, after a later run was killed.

    Args:
        table: The batch table, under the writer lock; it is at the new version afterwards.
        table_change: Change by the killed run; if the version it started from is unknown, the table is not changed.

    Raises:
        LakeError: A file no longer exists, or the table cannot be written.
    """
    if table_change.base is None or table_change.base < 0:
        return
    now = {str(action["path"]): action for action in delta.actions(table)}
    previous_paths = _undo_entries(table, set(now), table_change.base)
    with commits.converting_write_errors(table.table_uri):
        relisted = [data_files.list_again(table.table_uri, path) for path in sorted(previous_paths - now.keys())]
        removed = [action for path, action in now.items() if path not in previous_paths]
        note = CommitProperties(max_commit_retries=0, custom_metadata=ROLLED_BACK)
        if relisted or removed:
            commits.replace(table, removed, relisted, commit=note)
            log.warning(
                "unfinished_rows_taken_back", table=table_change.uri, files=len(removed), to_version=table_change.base
            )


def _undo_entries(table: DeltaTable, live: set[str], base: int) -> set[str]:
    """Return the files of an earlier version by undoing the entries since; it may be too old to be opened."""
    for version in range(int(table.version()), base, -1):
        for action in delta_log.read_entry(table.table_uri, version) or ():
            if "add" in action:
                live.discard(action["add"]["path"])
            if "remove" in action:
                live.add(action["remove"]["path"])
    return live


def _reject_outside(table: DeltaTable, rows: pa.Table, ranges: Sequence[Range]) -> None:
    with queries.open_duckdb() as connection:
        connection.register("made", rows)
        _bind(connection, "replaced", ranges)
        query = f"SELECT count(*) FROM made WHERE NOT EXISTS (SELECT 1 FROM replaced r WHERE {_INSIDE})"  # noqa: S608
        (outside,) = connection.execute(query).fetchall()[0]
    if outside:
        msg = f"Table `{table.table_uri}`, version {table.version()}: windows cannot be replaced: expected rows inside "
        msg += f"{count_noun(len(ranges), 'range')}, got {outside} outside of them."
        raise LakeError(msg)


def _write_files(table: DeltaTable, rows: pa.Table, of: str) -> list[AddAction]:
    if not rows.num_rows:
        return []
    ordered = rows.sort_by([(name, "ascending") for name in ("window_start", "window_end")])
    pieces = (ordered.slice(start, ROWS) for start in range(0, ordered.num_rows, ROWS))
    return [data_files.write_data_file(table.table_uri, piece, checksums.new_stem("batch", of)) for piece in pieces]


def _list_touched_files(table: DeltaTable, ranges: Sequence[Range]) -> list[dict[str, Any]]:
    """Return the files that may hold a window inside one of the ranges, by their own footers.

    Statistics in the table's log have no checksum: a wrong one would leave old rows of a window next to the new ones.
    """
    return [
        action for action in delta.actions(table) if _may_hold(data_files.read_span(table, str(action["path"])), ranges)
    ]


def _may_hold(span: tuple[int | None, int | None], ranges: Sequence[Range]) -> bool:
    opens, ends = span
    return opens is None or ends is None or any(start < ends and opens < end for start, end in ranges)


def read_rows_outside(
    table: DeltaTable, actions: Sequence[Mapping[str, Any]], schema: pa.Schema, ranges: Sequence[Range]
) -> pa.Table:
    """Read the rows of some files whose windows do not lie wholly inside one of the ranges.

    Columns are those of `schema`, null if the table does not have them.
    """
    if not actions:
        return schema.empty_table()
    with queries.open_duckdb() as connection:
        delta.bind(connection, "found", table, paths=[str(action["path"]) for action in actions])
        _bind(connection, "replaced", ranges)
        names = set(delta.read_schema(table).names)
        columns = ", ".join(
            identifier(name) if name in names else f"NULL AS {identifier(name)}" for name in schema.names
        )
        query = f"SELECT {columns} FROM found WHERE NOT EXISTS (SELECT 1 FROM replaced r WHERE {_INSIDE})"  # noqa: S608
        with delta.naming(table):
            return queries.query_table(connection, query).cast(schema)


def _bind(connection: duckdb.DuckDBPyConnection, name: str, ranges: Sequence[Range]) -> None:
    columns = {"first": [start for start, _ in ranges], "last": [end for _, end in ranges]}
    connection.register(name, pa.table(columns, schema=pa.schema([("first", pa.int64()), ("last", pa.int64())])))
