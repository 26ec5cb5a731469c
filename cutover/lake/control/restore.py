"""Rows of control tables that another writer removed or changed, written again from the files that they once stood in.

Each commit to a control table has a number of its pipeline's own, so it is known which rows are gone. A file that is no
longer listed stays for a day; what the table's log or checkpoint calls removed was committed once, and its name holds
the checksum of its bytes. A file that was never committed is not believed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError
from pyarrow import fs

from cutover.engine import queries
from cutover.events import log
from cutover.lake import turns
from cutover.lake.control import control_tables
from cutover.lake.control.control_schemas import SCHEMAS
from cutover.lake.paths import ControlTable, control_uri
from cutover.lake.tables import checksums, commits, data_files, delta, delta_log
from cutover.settings import Settings

_FOUND = """
    SELECT DISTINCT removed.* FROM removed ANTI JOIN kept USING (pipeline, sequence)
    WHERE sequence IS NOT NULL ORDER BY pipeline, sequence"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What became of one control table."""

    table: ControlTable
    rows: int  # that were written again
    files: int  # of another writer, that are listed no more
    gone: Mapping[str, int]  # pipeline -> commits whose rows no file holds any more


def has_begun(settings: Settings) -> bool:
    """Tell a new lake, which has no control table yet, from one in use.

    Raises:
        LakeError: Some of them are gone.
    """
    return any(control_tables.exists(settings, name) for name in SCHEMAS)


def restore(settings: Settings, *, dry_run: bool = False) -> Iterator[Restored]:
    """Yield what was done to each control table that is not as its writers of ours left it.

    Args:
        settings: Where the lake lies.
        dry_run: Only tell what would be done.

    Raises:
        LakeError: A table is gone, cannot be read or written, or others write it without end.
    """
    for name in SCHEMAS:
        if control_tables.exists(settings, name):
            found = control_tables.unless_overtaken(partial(_restore_table, settings, name, dry_run=dry_run))
            if found.rows or found.files or found.gone:
                yield found
        elif noted := turns.list_noted(settings, name):
            gone = {one: _count_behind(settings, name, one, is_there=False) for one in sorted(noted)}
            yield Restored(table=name, rows=0, files=0, gone=gone)


def _restore_table(settings: Settings, name: ControlTable, *, dry_run: bool) -> Restored:
    table = delta.open_table(control_uri(settings, name))
    listed = delta.actions(table)
    theirs = [action for action in listed if checksums.name_of(str(action["path"])) is None]
    ours = {str(action["path"]) for action in listed} - {str(action["path"]) for action in theirs}
    with queries.connect() as connection:
        delta.bind(connection, "kept", table, paths=ours)
        connection.register("removed", _read_removed_rows(table, ours))
        rows = queries.read_table(connection, _FOUND)
        known = "SELECT pipeline, sequence FROM kept UNION SELECT pipeline, sequence FROM removed"
        numbers = connection.execute(known).fetchall()
    if (rows.num_rows or theirs) and not dry_run:
        _write(table, rows, theirs)
        log.warning("control_restored", table=name, rows=rows.num_rows, files_of_others=len(theirs))
    names = sorted({str(row[0]) for row in numbers} | turns.list_noted(settings, name))
    gone = {one: len(_find_missing(table, one, numbers)) + _count_behind(settings, name, one) for one in names}
    found = {pipeline: number for pipeline, number in gone.items() if number}
    return Restored(table=name, rows=rows.num_rows, files=len(theirs), gone=found)


def _find_missing(table: DeltaTable, pipeline: str, numbers: Sequence[tuple[str, int]]) -> list[int]:
    newest = delta.transaction(table, pipeline)
    held = {sequence for name, sequence in numbers if name == pipeline}
    return sorted(set(range(0 if newest is None else newest + 1)) - held)


def _count_behind(settings: Settings, name: ControlTable, pipeline: str, *, is_there: bool = True) -> int:
    """Count the rows of a pipeline that were noted, and that an older copy of the table, or none, does not know."""
    noted = turns.read_newest(settings, name, pipeline)
    table = delta.open_table(control_uri(settings, name)) if is_there else None
    return len(control_tables.noted_behind(table, pipeline, noted))


def _read_removed_rows(table: DeltaTable, listed: set[str]) -> pa.Table:
    """Return the rows of all files of ours that were committed once, are listed no more, and are still there."""
    schema = delta.read_schema(table)
    system, root = delta.folder_of(table)
    found = [schema.empty_table()]
    for path in sorted(delta_log.list_removed_paths(table.table_uri) - listed):
        is_there = system.get_file_info(f"{root}/{path}").type is fs.FileType.File
        if checksums.name_of(path) is not None and is_there:
            found.append(data_files.read(table, path, schema.names).cast(schema))
    return pa.concat_tables(found)


def _write(table: DeltaTable, rows: pa.Table, theirs: Sequence[Mapping[str, object]]) -> None:
    """List the rows again, and files of others no more, in one commit at the version that the handle shows."""
    stem = checksums.new_stem("restored")
    made = [data_files.write(table.table_uri, rows, stem)] if rows.num_rows else []
    try:
        commits.replace(table, theirs, made, commit=CommitProperties(max_commit_retries=0))
    except CommitFailedError as error:
        msg = f"Table `{table.table_uri}`: expected nobody else at work, got a commit meanwhile."
        raise control_tables.OvertakenError(
            msg + "\nHint: nothing was written; try again.", runbook="ForeignWrite"
        ) from error
