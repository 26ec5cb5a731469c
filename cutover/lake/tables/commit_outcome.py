"""Whether a commit is there whose answer did not come: every append carries a mark that its commit can be told by."""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from cutover.errors import LakeError
from cutover.events import log
from cutover.lake.tables import delta

MARK = "cutover.append"
"""Key in the commit's own words."""


def new_mark(commit: CommitProperties | None) -> tuple[str, CommitProperties]:
    """Draw a mark, and make the commit's metadata that carries it, by which a lost answer is made good."""
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
    """Run a commit; where it fails, look whether it is there all the same, and say what is true.

    Args:
        table: The handle that commits; it shows the commit afterwards.
        mark: Of the commit.

    Raises:
        CommitFailedError: Another commit of the same application came first.
        LakeError: It failed and is not there, or nobody can say whether it is.
    """
    before = int(table.version())
    try:
        yield
    except (DeltaError, OSError) as error:
        there, why = _is_there(table.table_uri, mark, after=before)
        if there:
            log.warning("append_found_committed", table=table.table_uri, error=str(error).splitlines()[0])
            table.update_incremental()
            return
        if isinstance(error, CommitFailedError) and there is False:
            raise
        raise _make_commit_error(table.table_uri, error, why) from error


def _is_there(uri: str, mark: str, *, after: int) -> tuple[bool | None, str]:
    """Return whether a version behind `after` carries a mark; None, and why, where the table does not say."""
    try:
        found = DeltaTable(uri)
        since = list(delta.history(found, after=after))
    except (DeltaError, OSError) as error:
        return None, str(error).splitlines()[0]
    if any(entry.get(MARK) == mark for entry in since):
        return True, ""
    whole = len(since) == max(0, int(found.version()) - after)
    return (False, "") if whole else (None, "entries of its log are gone or damaged")


def _make_commit_error(uri: str, error: Exception, unknown: str) -> LakeError:
    msg = f"Table `{uri}`: expected a place that can be written, got: {str(error).splitlines()[0]}."
    hint = "\nHint: nothing was committed; look at the free space and the folder's owner."
    if unknown:
        hint = (
            f"\nHint: whether it was committed is not known, the table cannot be read now: {unknown}. Look again later."
        )
    return LakeError(msg + hint, runbook="DiskHeadroomLow")
