"""Maintenance of tables that only grow: small files are merged, old versions deleted; held versions stay readable.

OPTIMIZE of delta-rs duplicates rows if two processes run it at the same time, because it does not detect that the other
one removed the same files. So the files are read here, and the commit fails at any version but the one that was read.
"""

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import DeltaError

from cutover.engine import queries
from cutover.errors import LakeError
from cutover.events import log
from cutover.lake.tables import checksums, commits, data_files, delta

FILES = 100  # of a table; a larger number of files is merged
MOST = 256 * 2**20  # bytes of a table that is merged: it is read into memory
NOTE = {"userMetadata": "compacted"}
KEEP_HOURS = 24  # files that are no longer listed stay readable for a day: `delta.deletedFileRetentionDuration`


def compact(uri: str, *, files: int = FILES) -> bool:
    """Merge the files of an unpartitioned table into one if there are more than `files`; the rows are unchanged.

    Several processes may call it at the same time, and alongside appends: if another commit comes first, the table is
    left unchanged. So is a table of more than `MOST` bytes, and one with files of another writer.

    Returns:
        True if the files were merged.

    Raises:
        LakeError: The table cannot be read.
    """
    table = delta.open_table(uri)
    sizes = [int(action["size_bytes"]) for action in delta.actions(table)]
    file_count = len(sizes)
    if file_count <= files or sum(sizes) > MOST or any(checksums.parse_name(p) is None for p in delta.paths(table)):
        return False
    with queries.open_duckdb() as connection:
        delta.bind(connection, "old", table)
        with delta.naming(table):
            rows = queries.query_table(connection, "SELECT * FROM old")
    try:
        _replace(table, rows.cast(delta.read_schema(table)))
    except (DeltaError, OSError) as error:
        log.info("compaction_left", table=uri, error=str(error).splitlines()[0])
        return False
    log.info("compacted", table=uri, files_before=file_count, rows=rows.num_rows)
    return True


def _replace(table: DeltaTable, rows: pa.Table) -> None:
    """Replace all files by one, at the version that the handle shows; no data changes, so appends do not conflict."""
    replaced = delta.actions(table)
    weight = checksums.weight_word(checksums.total(delta.paths(table)))
    stem = checksums.new_stem("compacted", weight)
    add_action = data_files.write_data_file(table.table_uri, rows, stem, new_data=False)
    actions: list[commits.Action] = [add_action, *(data_files.remove(action) for action in replaced)]
    commits.transact(table, actions, commit=CommitProperties(max_commit_retries=0, custom_metadata=NOTE))


def clean(uri: str) -> None:
    """Delete files that no version of the last day lists; a failure is only logged, because no reader depends on it."""
    try:
        table = delta.open_table(uri)
        if table.vacuum(retention_hours=KEEP_HOURS, dry_run=True):  # each vacuum adds two entries to the log
            table.vacuum(retention_hours=KEEP_HOURS, dry_run=False)
    except (DeltaError, OSError, LakeError) as error:
        log.warning("cleaning_failed", table=uri, error=str(error).splitlines()[0])
