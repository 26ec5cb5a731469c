"""Upkeep of tables that only grow: many small files become one, old versions go; nothing that a reader names is lost.

Rewriting by delta-rs itself doubles rows where two processes do it at the same moment: it does not see that the other
one took the same files away. So the files are read here, and the commit is refused at any version but the one read.
"""

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import DeltaError

from cutover.engine import queries
from cutover.errors import LakeError
from cutover.events import log
from cutover.lake.tables import checksums, commits, data_files, delta

FILES = 100  # of a table, beyond which they are merged
MOST = 256 * 2**20  # bytes of a table that is merged: all of it is held in memory
NOTE = {"userMetadata": "compacted"}
KEEP_HOURS = 24  # what is no longer listed stays readable for a day: `delta.deletedFileRetentionDuration`


def compact(uri: str, *, files: int = FILES) -> bool:
    """Merge the files of an unpartitioned table into one if there are more than `files`; the rows stay as they are.

    Several processes may call it at once, beside appends: whoever comes late leaves it. A table of more than `MOST`
    bytes stays as it is, and so does one with files that another writer wrote.

    Returns:
        Whether it was done.

    Raises:
        LakeError: The table cannot be read.
    """
    table = delta.open_table(uri)
    sizes = [int(action["size_bytes"]) for action in delta.actions(table)]
    before = len(sizes)
    if before <= files or sum(sizes) > MOST or any(checksums.name_of(p) is None for p in delta.paths(table)):
        return False
    with queries.connect() as connection:
        delta.bind(connection, "old", table)
        with delta.naming(table):
            rows = queries.read_table(connection, "SELECT * FROM old")
    try:
        _replace(table, rows.cast(delta.read_schema(table)))
    except (DeltaError, OSError) as error:
        log.info("compaction_left", table=uri, error=str(error).splitlines()[0])
        return False
    log.info("compacted", table=uri, files_before=before, rows=rows.num_rows)
    return True


def _replace(table: DeltaTable, rows: pa.Table) -> None:
    """Put one file in the place of all, at the version that the handle shows; no data changes, so appends go on."""
    listed = delta.actions(table)
    weight = checksums.weight_word(checksums.total(delta.paths(table)))
    stem = checksums.new_stem("compacted", weight)
    made = data_files.write(table.table_uri, rows, stem, new_data=False)
    actions: list[commits.Action] = [made, *(data_files.remove(action) for action in listed)]
    commits.transact(table, actions, commit=CommitProperties(max_commit_retries=0, custom_metadata=NOTE))


def clean(uri: str) -> None:
    """Drop files that no version of the last day lists. What fails is said: nobody depends on it."""
    try:
        table = delta.open_table(uri)
        if table.vacuum(retention_hours=KEEP_HOURS, dry_run=True):  # each vacuum adds two entries to the log
            table.vacuum(retention_hours=KEEP_HOURS, dry_run=False)
    except (DeltaError, OSError, LakeError) as error:
        log.warning("cleaning_failed", table=uri, error=str(error).splitlines()[0])
