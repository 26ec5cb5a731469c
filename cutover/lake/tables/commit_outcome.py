"""Resolve commits whose acknowledgement was lost: every append carries a mark by which its commit is recognized."""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from cutover.errors import LakeError
from cutover.events import log
from cutover.lake.tables import delta

MARK = "cutover.append"
"""Key in the metadata of the commit."""


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
        entries = list(delta.history(table, after=version))
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
