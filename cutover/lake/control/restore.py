"""Restore rows of control tables that another writer deleted or changed, from the data files that contained them.

Each commit to a control table has a sequence of its pipeline, so missing rows are known. A file that is no longer
listed stays for a day; a file that the table's log or checkpoint lists as removed was committed once, and its name
contains the checksum of its bytes. A file that was never committed is not trusted.
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
from cutover.lake import journal, sequence_marks
from cutover.lake.tables import checksums, commits, data_files, delta, delta_log
from cutover.pipeline_lake import control_uri
from cutover.settings import Settings

_MISSING_ROWS = """
    SELECT DISTINCT removed.* FROM removed ANTI JOIN present USING (pipeline, sequence)
    WHERE sequence IS NOT NULL ORDER BY pipeline, sequence"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredTable:
    """Outcome of restoring one control table."""

    table: str
    rows: int  # that were written again
    files: int  # of another writer, that are no longer listed
    lost: Mapping[str, int]  # pipeline -> commits whose rows no file contains any more


def any_table_exists(settings: Settings) -> bool:
    """Return whether the lake has been used; a new lake has no control table yet.

    Raises:
        LakeError: Some of the control tables were removed.
    """
    return any(journal.table_exists(settings, table) for table in journal.list_row_types())


def restore(settings: Settings, *, dry_run: bool = False) -> Iterator[RestoredTable]:
    """Restore each control table that is not as Cutover left it, and yield the outcome.

    Args:
        settings: Location of the lake.
        dry_run: Only report what would be done.

    Raises:
        LakeError: A table was removed, cannot be read or written, or other processes wrote it in every attempt.
    """
    for table in journal.list_row_types():
        if journal.table_exists(settings, table):
            restored = journal.retry_conflicts(partial(_restore_table, settings, table, dry_run=dry_run))
            if restored.rows or restored.files or restored.lost:
                yield restored
        elif marked := sequence_marks.list_marked_pipelines(settings, table):
            lost = {pipeline: _count_marked(settings, table, pipeline, exists=False) for pipeline in sorted(marked)}
            yield RestoredTable(table=table, rows=0, files=0, lost=lost)


def _restore_table(settings: Settings, table: str, *, dry_run: bool) -> RestoredTable:
    handle = delta.open_table(control_uri(settings, table))
    listed = delta.actions(handle)
    foreign = [action for action in listed if checksums.parse_name(str(action["path"])) is None]
    own_paths = {str(action["path"]) for action in listed} - {str(action["path"]) for action in foreign}
    with queries.open_duckdb() as connection:
        delta.bind(connection, "present", handle, paths=own_paths)
        connection.register("removed", _read_removed_rows(handle, own_paths))
        rows = queries.query_table(connection, _MISSING_ROWS)
        union = "SELECT pipeline, sequence FROM present UNION SELECT pipeline, sequence FROM removed"
        sequences = connection.execute(union).fetchall()
    if (rows.num_rows or foreign) and not dry_run:
        _write(handle, rows, foreign)
        log.warning("control_restored", table=table, rows=rows.num_rows, files_of_others=len(foreign))
    pipelines = sorted({str(row[0]) for row in sequences} | sequence_marks.list_marked_pipelines(settings, table))
    counts = {
        pipeline: len(_find_missing(handle, pipeline, sequences)) + _count_marked(settings, table, pipeline)
        for pipeline in pipelines
    }
    lost = {pipeline: count for pipeline, count in counts.items() if count}
    return RestoredTable(table=table, rows=rows.num_rows, files=len(foreign), lost=lost)


def _find_missing(handle: DeltaTable, pipeline: str, sequences: Sequence[tuple[str, int]]) -> list[int]:
    present = {sequence for name, sequence in sequences if name == pipeline}
    return journal.find_gaps(delta.transaction(handle, pipeline), present)


def _count_marked(settings: Settings, table: str, pipeline: str, *, exists: bool = True) -> int:
    """Count the rows of a pipeline that were marked, and that an older copy of the table, or none, does not have."""
    marked = sequence_marks.read_latest(settings, table, pipeline)  # before the table is opened, which then has the row
    handle = delta.open_table(control_uri(settings, table)) if exists else None
    return len(journal.find_marked_sequences(handle, pipeline, marked))


def _read_removed_rows(handle: DeltaTable, listed: set[str]) -> pa.Table:
    """Read the rows of all own files that were committed, are no longer listed, and still exist."""
    schema = delta.read_schema(handle)
    system, root = delta.folder_of(handle)
    tables = [schema.empty_table()]
    for path in sorted(delta_log.list_removed_paths(handle.table_uri) - listed):
        exists = system.get_file_info(f"{root}/{path}").type is fs.FileType.File
        if checksums.parse_name(path) is not None and exists:
            tables.append(data_files.read_data_file(handle, path, schema.names).cast(schema))
    return pa.concat_tables(tables)


def _write(handle: DeltaTable, rows: pa.Table, foreign: Sequence[Mapping[str, object]]) -> None:
    """List the rows again and foreign files no longer, in one commit on the version that the handle shows."""
    stem = checksums.new_stem("restored")
    added = [data_files.write_data_file(handle.table_uri, rows, stem)] if rows.num_rows else []
    try:
        commits.replace(handle, foreign, added, commit=CommitProperties(max_commit_retries=0))
    except CommitFailedError as error:
        msg = f"Table `{handle.table_uri}`: expected no other writer, another process committed in the meantime."
        raise journal.SequenceConflictError(
            msg + "\nHint: nothing was written; try again.", runbook="ForeignWrite"
        ) from error
