"""Commits of Cutover to Delta tables: files that are named by their checksum, listed in one transaction.

Every append carries a mark, by which a commit whose acknowledgement was lost is recognized.

Tables that only grow are maintained: small files are merged (`compact`), old versions deleted (`clean`); held versions
stay readable. OPTIMIZE of delta-rs duplicates rows if two processes run it at the same time, because it does not detect
that the other one removed the same files. So the files are read here, and the commit fails at any version but the one
that was read.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from cutover.engine import queries
from cutover.errors import LakeError
from cutover.events import log
from cutover.lake.tables import checksums, data_files, delta, delta_log

MARK = "cutover.append"
"""Key in the metadata of the commit."""

Action = AddAction | RemoveAction
Actions = Sequence[Action]


def new_mark(commit: CommitProperties | None) -> tuple[str, CommitProperties]:
    """Make a random mark, and the commit properties that carry it, so that a lost acknowledgement can be resolved."""
    mark = uuid.uuid4().hex
    return mark, add_words(commit, {MARK: mark})


def add_words(commit: CommitProperties | None, words: Mapping[str, str]) -> CommitProperties:
    """Return a commit's properties with further words in its metadata."""
    if commit is None:
        return CommitProperties(custom_metadata=dict(words))
    return CommitProperties(
        custom_metadata={**(commit.custom_metadata or {}), **words},
        max_commit_retries=commit.max_commit_retries,
        app_transactions=commit.app_transactions,
    )


@contextmanager
def settle_commit(table: DeltaTable, mark: str) -> Iterator[None]:
    """Run a commit; if it fails, find out whether the table has it all the same.

    Args:
        table: The handle that commits; it shows the commit afterwards.
        mark: Mark of the commit.

    Raises:
        CommitFailedError: Another commit of the same application came first.
        LakeError: The commit failed and the table does not have it, or it is unknown whether it does.
    """
    version = int(table.version())
    try:
        yield
    except (DeltaError, OSError) as error:
        is_committed, reason = _find_commit(table.table_uri, mark, version=version)
        if is_committed:
            log.warning("append_found_committed", table=table.table_uri, error=str(error).splitlines()[0])
            table.update_incremental()
            return
        if isinstance(error, CommitFailedError) and is_committed is False:
            raise
        raise _make_commit_error(table.table_uri, error, reason) from error


def _find_commit(uri: str, mark: str, *, version: int) -> tuple[bool | None, str]:
    """Return whether a commit after `version` carries a mark; None, and the reason, if this is unknown."""
    try:
        table = DeltaTable(uri)
        entries = list(delta.list_commits(table, after=version))
    except (DeltaError, OSError) as error:
        return None, str(error).splitlines()[0]
    if any(entry.get(MARK) == mark for entry in entries):
        return True, ""
    is_complete = len(entries) == max(0, int(table.version()) - version)
    return (False, "") if is_complete else (None, "entries of its log are missing or damaged")


def _make_commit_error(uri: str, error: Exception, unknown: str) -> LakeError:
    msg = f"Table `{uri}`: expected a place that can be written, got: {str(error).splitlines()[0]}."
    hint = "\nHint: nothing was committed; check the free space and the folder's owner."
    if unknown:
        hint = (
            f"\nHint: it is unknown whether it was committed, the table cannot be read: {unknown}. Check again later."
        )
    return LakeError(msg + hint, runbook="DiskHeadroomLow")


def append(
    table: DeltaTable, rows: pa.Table, *, stem: str | None = None, commit: CommitProperties | None = None
) -> None:
    """Append rows to an open table, one file per partition; other processes may append at the same time.

    Args:
        table: The handle; it shows the new version afterwards.
        rows: At least one row.
        stem: Stem of the file's name, from `checksums.new_stem`; None: a new one.
        commit: Properties of the commit.

    Raises:
        CommitFailedError: Another commit of the same application came first.
        LakeError: The storage did not accept a file, such as a full disk; nothing was committed.
    """
    mark, commit = new_mark(commit)
    with settle_commit(table, mark):
        rows = rows.cast(delta.read_schema(table))
        stem = stem or checksums.new_stem("rows")
        columns = table.metadata().partition_columns
        parts = data_files.split(rows, columns[0] if columns else None)
        files = [data_files.write_data_file(table.table_uri, part, stem, partition=values) for values, part in parts]
        transact(table, files, commit=commit)


def replace(
    table: DeltaTable,
    replaced: Sequence[Mapping[str, Any]],
    add_actions: Sequence[AddAction],
    *,
    new_data: bool = True,
    commit: CommitProperties | None = None,
) -> None:
    """Replace some listed files of a table by others in one commit.

    Args:
        table: The handle, at the newest version of the table; it shows the new version afterwards.
        replaced: Files that are no longer listed, from `delta.actions`.
        add_actions: Files that are listed instead.
        new_data: False if the rows are unchanged.
        commit: Properties of the commit.

    Raises:
        CommitFailedError: Another commit came first.
        LakeError: The storage did not accept a file; nothing was committed.
    """
    mark, commit = new_mark(commit)
    with settle_commit(table, mark):
        transact(
            table, [*add_actions, *(data_files.remove(action, new_data=new_data) for action in replaced)], commit=commit
        )


def transact(
    table: DeltaTable,
    actions: Actions,
    *,
    commit: CommitProperties | None = None,
    hooks: PostCommitHookProperties | None = None,
) -> None:
    """Commit actions through a handle, and update it to the version after them.

    Raises:
        CommitFailedError, DeltaError, OSError: As raised by delta-rs.
    """
    added = [action for action in actions if isinstance(action, AddAction)]
    removed = (action.path for action in actions if isinstance(action, RemoveAction))
    table.create_write_transaction(
        list(actions),
        mode="append",
        schema=table.schema(),
        partition_by=table.metadata().partition_columns,
        commit_properties=_add_digest(commit, added, removed),
        post_commithook_properties=hooks,
    )
    table.update_incremental()  # such a commit leaves its handle at the previous version


def overwrite(
    table: DeltaTable,
    add_actions: Sequence[AddAction],
    schema: Schema,
    *,
    partition_by: Sequence[str] = (),
    commit: CommitProperties | None = None,
) -> None:
    """Replace all files that a handle lists, and the schema of the table; the handle shows the new version afterwards.

    Raises:
        CommitFailedError, DeltaError, OSError: As raised by delta-rs.
    """
    table.create_write_transaction(
        list(add_actions),
        mode="overwrite",
        schema=schema,
        partition_by=list(partition_by),
        commit_properties=_add_digest(commit, add_actions, delta.paths(table)),
    )
    table.update_incremental()


def create_table(
    uri: str,
    add_actions: Sequence[AddAction],
    schema: Schema,
    *,
    configuration: Mapping[str, str],
    partition_by: Sequence[str] = (),
    commit: CommitProperties | None = None,
) -> None:
    """Create a table that lists files in its first version.

    Raises:
        DeltaError, OSError: As raised by delta-rs, also if the table already exists.
    """
    create_table_with_add_actions(
        uri,
        schema,
        list(add_actions),
        mode="error",
        partition_by=list(partition_by),
        configuration=dict(configuration),
        commit_properties=_add_digest(commit, add_actions, ()),
    )


def _add_digest(
    commit: CommitProperties | None, add_actions: Iterable[AddAction], removed: Iterable[str]
) -> CommitProperties:
    """Add a digest of the actions to a commit, so that an entry that was changed later is detected."""
    added = ((action.path, action.size) for action in add_actions)
    transactions = (commit.app_transactions if commit is not None else None) or ()
    numbers = ((transaction.app_id, transaction.version) for transaction in transactions)
    return add_words(commit, {delta_log.DIGEST: delta_log.digest(added, removed, numbers)})


@contextmanager
def converting_write_errors(uri: str) -> Iterator[None]:
    """Convert errors of the storage while a file is written or committed into one with a hint.

    Raises:
        CommitFailedError: Another commit came first.
        LakeError: The storage did not accept a file; nothing was committed.
    """
    try:
        yield
    except CommitFailedError:
        raise
    except (DeltaError, OSError) as error:
        msg = f"Table `{uri}`: expected a place that can be written, got: {str(error).splitlines()[0]}."
        hint = "\nHint: nothing was committed; check the free space and the folder's owner."
        raise LakeError(msg + hint, runbook="DiskHeadroomLow") from error


MOST_FILES = 100  # of a table; a larger number of files is merged
MOST_BYTES = 256 * 2**20  # bytes of a table that is merged: it is read into memory
_COMPACTED = {"userMetadata": "compacted"}
KEEP_HOURS = 24  # files that are no longer listed stay readable for a day: `delta.deletedFileRetentionDuration`


def compact(uri: str, *, files: int = MOST_FILES) -> bool:
    """Merge the files of an unpartitioned table into one if there are more than `files`; the rows are unchanged.

    Several processes may call it at the same time, and alongside appends: if another commit comes first, the table is
    left unchanged. So is a table of more than `MOST_BYTES` bytes, and one with files of another writer.

    Returns:
        True if the files were merged.

    Raises:
        LakeError: The table cannot be read.
    """
    table = delta.open_table(uri)
    sizes = [int(action["size_bytes"]) for action in delta.actions(table)]
    file_count = len(sizes)
    if (
        file_count <= files
        or sum(sizes) > MOST_BYTES
        or any(checksums.parse_name(p) is None for p in delta.paths(table))
    ):
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
    actions: list[Action] = [add_action, *(data_files.remove(action) for action in replaced)]
    transact(table, actions, commit=CommitProperties(max_commit_retries=0, custom_metadata=_COMPACTED))


def clean(uri: str) -> None:
    """Delete files that no version of the last day lists; a failure is only logged, because no reader depends on it."""
    try:
        table = delta.open_table(uri)
        if table.vacuum(retention_hours=KEEP_HOURS, dry_run=True):  # each vacuum adds two entries to the log
            table.vacuum(retention_hours=KEEP_HOURS, dry_run=False)
    except (DeltaError, OSError, LakeError) as error:
        log.warning("cleaning_failed", table=uri, error=str(error).splitlines()[0])
