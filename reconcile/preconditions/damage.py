"""Files that a table lists and that cannot be read, with their contents. Determined after a failed read."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
from deltalake import DeltaTable

from cutover.errors import LakeError
from cutover.lake.integrity import foreign_commits
from cutover.lake.tables import delta
from cutover.lake.tables.checksums import FileDamagedError
from cutover.reconcile.result.seal import SealBreach

RUNBOOK = "TableUnreadable"
_CODES = {"EpochHistoryBroken": "history", foreign_commits.RUNBOOK: foreign_commits.Kind.FOREIGN.value}


def find_missing_file(tables_read: Sequence[DeltaTable]) -> SealBreach | None:
    """Return the breach of the first listed file that is not there."""
    for table in tables_read:
        for root, action in _files(table):
            if not delta.file_path(root, action).is_file():
                return _breach(table, root, action, "is listed and not there")
    return None


def find_damaged_file(tables_read: Sequence[DeltaTable]) -> SealBreach | None:
    """Return the breach of the first file that cannot be read to its end; None if all can."""
    for table in tables_read:
        root, action = delta.local_root(table), delta.find_damaged(table)
        if root is not None and action is not None:
            return _breach(table, root, action, "cannot be read")
    return None


def find_overflow_breach(name: str, error: duckdb.Error) -> SealBreach | None:
    """Return the breach of totals over keys or windows that no type holds; None if that is not why a query failed."""
    if not isinstance(error, duckdb.OutOfRangeException):
        return None
    text = f"Tables of {name}: expected measures whose totals fit into 38 digits, got: {str(error).splitlines()[0]}."
    return make_unreadable_breach(text)


def make_damage_breach(error: LakeError) -> SealBreach:
    """Keep the error's text and file; its runbook decides the code, `unreadable` where it names none."""
    breach = make_unreadable_breach(error.text, error.file if isinstance(error, FileDamagedError) else None)
    code = _CODES.get(error.runbook or RUNBOOK)
    return breach if code is None else replace(breach, code=code, runbook=error.runbook)


def make_unreadable_breach(message: str, file: str | None = None) -> SealBreach:
    """Code `unreadable`, with the damaged file's path where it is known."""
    return SealBreach(code="unreadable", message=message, runbook=RUNBOOK, file=file)


def _files(table: DeltaTable) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield folder and add action of each file of a local table; an object store answers when it is read."""
    root = delta.local_root(table)
    if root is None:
        return
    for action in delta.actions(table):
        yield root, action


def _breach(table: DeltaTable, root: Path, action: dict[str, Any], problem: str) -> SealBreach:
    path = str(action["path"])
    contents = delta.describe_contents(table, path)
    text = f"Table `{root}`, version {table.version()}: file `{path}`{f' ({contents})' if contents else ''} {problem}."
    return make_unreadable_breach(text, path)
