"""Commits of Cutover to Delta tables: files that are named by their checksum, listed in one transaction."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from cutover.errors import LakeError
from cutover.lake.tables import checksums, commit_outcome, data_files, delta, delta_log

Action = AddAction | RemoveAction
Actions = Sequence[Action]


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
    mark, commit = commit_outcome.new_mark(commit)
    with commit_outcome.settle_commit(table, mark):
        rows = rows.cast(delta.read_schema(table))
        stem = stem or checksums.new_stem("rows")
        columns = table.metadata().partition_columns
        parts = data_files.split(rows, columns[0] if columns else None)
        files = [data_files.write(table.table_uri, part, stem, partition=values) for values, part in parts]
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
    mark, commit = commit_outcome.new_mark(commit)
    with commit_outcome.settle_commit(table, mark):
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


def create(
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
    return commit_outcome.add_words(commit, {delta_log.DIGEST: delta_log.digest(added, iter(removed))})


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
