"""Changes that another writer made to a table of Cutover: detected by the weight of its files, classified by its rows.

The writer of the latest commit recorded the weight of all listed files after it (`checksums`). If the weight differs,
or a file has a name that Cutover never uses, the table's log names the writer for as long as its entries are retained:
the entries of other writers are reverted in memory, one by one, until the files have the recorded weight. If the rows
before and after are equal, the files were only rewritten (OPTIMIZE): this is harmless, and Cutover may adopt them. Any
other change was made by neither path, and its rows are not used until it is undone or they are recomputed.
"""

# ruff: noqa: S608 -- every name in a query is quoted

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import duckdb
from deltalake import DeltaTable

from cutover.counts import count_noun
from cutover.engine import queries
from cutover.errors import LakeError
from cutover.lake.tables import checksums, delta, delta_log
from cutover.lake.tables.checksums import Name
from cutover.lake.tables.schemas import nothing, select_rows_sql
from cutover.timestamps import from_micros

RUNBOOK = "ForeignWrite"
_SHOWN = 3  # commits that a message names

Live = Mapping[str, str | None]  # path -> value of the partition column `_kind`


class Kind(StrEnum):
    """Kinds of changes."""

    HARMLESS = "harmless"  # other files, the same rows
    FOREIGN = "foreign"  # other rows, by another writer
    UNFINISHED = "unfinished"  # by a run of Cutover that was never recorded: killed, or still running


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommit:
    """Entry of a table's log that changed which files are listed."""

    version: int
    operation: str
    engine: str
    at: str  # ISO 8601, UTC
    is_by_cutover: bool

    def __str__(self) -> str:
        """Describe the commit for messages: table version, operation, engine and time."""
        return f"table version {self.version}, {self.operation} by {self.engine} at {self.at}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """Difference between a table and the state that the latest writer of Cutover recorded."""

    uri: str
    kind: Kind
    commits: tuple[TableCommit, ...] = ()  # oldest first; empty: the table's log no longer has them
    base: int | None = None  # table version before them
    removed_rows: int | None = None  # None: they can no longer be counted
    added_rows: int | None = None
    missing: int = 0  # weight of the files that are no longer listed
    seen_by: str | None = None  # reader that saw a table which no longer exists; None: the table exists
    marked_sequence: int | None = None  # marked when its row was written, newer than the table; None: no such mark

    @property
    def sentence(self) -> str:
        """Describe who changed what, when, and how many rows."""
        if self.seen_by is not None:
            return f"Table `{self.uri}`: expected it to exist, {self.seen_by} saw it; its folder is missing."
        if self.marked_sequence is not None:
            return (
                f"Table `{self.uri}`: expected row {self.marked_sequence}, which is marked, got an older copy of the "
                "table."
            )
        if self.kind is Kind.UNFINISHED:
            commits = ", ".join(map(str, self.commits[:_SHOWN]))
            return f"Table `{self.uri}`: expected the files of the newest recorded run, got those of: {commits}."
        rows = (
            "an unknown number of rows"
            if self.removed_rows is None
            else f"{count_noun(self.removed_rows, 'row')} removed, {self.added_rows:,} added"
        )
        commits = "; ".join(map(str, self.commits[-_SHOWN:])) or "a commit that its log no longer has"
        more = f" and {len(self.commits) - _SHOWN} more" if len(self.commits) > _SHOWN else ""
        return f"Table `{self.uri}`: expected no writer but ours, got {commits}{more}: {rows}."

    @property
    def runbook(self) -> str:
        """Return `BatchNotFresh` for an unfinished run of Cutover, else `ForeignWrite`."""
        return "BatchNotFresh" if self.kind is Kind.UNFINISHED else RUNBOOK

    def message(self, otherwise: str) -> str:
        """Return sentence and hint, one line each, as the text of an error."""
        return f"{self.sentence}\n{self.hint(otherwise)}"

    def hint(self, otherwise: str) -> str:
        """Describe how to undo the change, and what else repairs it."""
        if self.kind is Kind.UNFINISHED:
            return "Hint: a batch run is running, or was killed: the next `cutover batch` completes it."
        if self.seen_by is not None:
            return f"Hint: restore it from a copy; {otherwise}."
        if self.marked_sequence is not None:
            return "Hint: restore the latest copy."
        if self.base is None or self.base < 0:  # no version of the table precedes the change
            return f"Hint: {otherwise}."
        return f"Hint: `DeltaTable({self.uri!r}).restore({self.base})` undoes it (Spark: RESTORE); {otherwise}."


@dataclass(slots=True)
class _RevertedTable:
    """Listed files of a table while entries of its log are reverted in memory."""

    live: dict[str, str | None]

    def revert(self, entry: delta_log.Entry) -> None:
        for action in entry:
            if "add" in action:
                self.live.pop(action["add"]["path"], None)
        for action in entry:
            if "remove" in action:
                values = action["remove"].get("partitionValues") or {}
                self.live[action["remove"]["path"]] = values.get("_kind", _folder_kind(action["remove"]["path"]))


def find_change(
    table: DeltaTable, expected: int | None, *, skips: Callable[[Name], bool] = lambda _: False
) -> TableChange | None:
    """Find how a table differs from what was recorded of it; None: it does not differ.

    Args:
        table: The handle.
        expected: Weight of its files, as the latest writer of Cutover recorded it; None: no writer records the weight
            of this table, so only the names of files reveal another writer.
        skips: Selects files that no record counts, such as those of a run that was killed.
    """
    live = {str(a["path"]): a.get("partition._kind") for a in delta.actions(table)}
    if _has_weight(live, expected, skips):
        return None
    delta.reject_damaged_log(table.table_uri)
    names = [name for name in map(checksums.parse_name, live) if name is not None and not skips(name)]
    missing = ((expected or 0) - sum(name.weight for name in names)) % (1 << 128)
    uri = str(delta.local_root(table) or table.table_uri)
    entries = list(_read_file_changes(table))
    for recorded_files, commits, base in _find_recorded_state(live, entries, expected, skips):
        foreign = tuple(commit for commit in commits if not commit.is_by_cutover)
        if not foreign:
            return TableChange(uri=uri, kind=Kind.UNFINISHED, commits=commits, base=base)
        row_counts = _count_different_rows(table, recorded_files, live)
        removed, added = (None, None) if row_counts is None else row_counts
        return TableChange(
            uri=uri,
            kind=Kind.HARMLESS if row_counts == (0, 0) else Kind.FOREIGN,
            commits=foreign,
            base=base,
            removed_rows=removed,
            added_rows=added,
            missing=missing,
        )
    foreign = tuple(commit for commit, _ in reversed(entries) if not commit.is_by_cutover)
    return TableChange(uri=uri, kind=Kind.FOREIGN, commits=foreign, missing=missing)


def find_removed(table: DeltaTable) -> TableChange:
    """Return the change of a table that lacks committed rows, with all foreign commits that its log still has."""
    entries = list(_read_file_changes(table))
    foreign = tuple(commit for commit, _ in reversed(entries) if not commit.is_by_cutover)
    is_followed = foreign and any(commit.is_by_cutover and commit.version > foreign[0].version for commit, _ in entries)
    base = foreign[0].version - 1 if foreign and not is_followed else None
    return TableChange(
        uri=str(delta.local_root(table) or table.table_uri), kind=Kind.FOREIGN, commits=foreign, base=base
    )


def reject_foreign_change(
    table: DeltaTable, expected: int | None, *, otherwise: str, skips: Callable[[Name], bool] = lambda _: False
) -> TableChange | None:
    """Reject a table in which another writer changed rows; return any other change, None if there is none.

    Raises:
        LakeError: Another writer changed rows.
    """
    change = find_change(table, expected, skips=skips)
    if change is not None and change.kind is Kind.FOREIGN:
        raise LakeError(change.message(otherwise), runbook=RUNBOOK)
    return change


def _has_weight(live: Live, expected: int | None, skips: Callable[[Name], bool]) -> bool:
    names = [checksums.parse_name(path) for path in live]
    if any(name is None for name in names):
        return False
    weight = sum(name.weight for name in names if name is not None and not skips(name)) % (1 << 128)
    return expected is None or weight == expected


def _find_recorded_state(
    live: Live,
    entries: Sequence[tuple[TableCommit, delta_log.Entry]],
    expected: int | None,
    skips: Callable[[Name], bool],
) -> Iterator[tuple[Live, tuple[TableCommit, ...], int | None]]:
    """Yield the files that had the recorded weight, the commits since then, and the table version before these.

    Foreign entries alone are reverted first, since Cutover may have committed after them; then all entries.
    """
    for only_foreign in (True, False):
        reverted, commits = _RevertedTable(dict(live)), list[TableCommit]()
        for commit, entry in entries:
            if only_foreign and commit.is_by_cutover:
                continue
            reverted.revert(entry)
            commits.insert(0, commit)
            if _has_weight(reverted.live, expected, skips):
                is_followed = any(c.is_by_cutover and c.version > commit.version for c, _ in entries)
                yield reverted.live, tuple(commits), None if is_followed and only_foreign else commit.version - 1
                return


def _read_file_changes(table: DeltaTable) -> Iterator[tuple[TableCommit, delta_log.Entry]]:
    """Yield the entries that changed files, newest first, as far back as the log retains them."""
    for version in range(int(table.version()), -1, -1):
        entry = delta_log.read_entry(table.table_uri, version)
        if entry is None:
            return
        adds = [action["add"]["path"] for action in entry if "add" in action]
        if adds or any("remove" in action for action in entry):
            yield _make_table_commit(version, entry, adds), entry


def _make_table_commit(version: int, entry: delta_log.Entry, adds: Sequence[str]) -> TableCommit:
    info = delta_log.info(entry)
    operation = str(info.get("operation", "a commit without a name"))
    at = from_micros(int(info.get("timestamp", 0)) * 1000)
    return TableCommit(
        version=version,
        operation=operation,
        engine=str(info.get("engineInfo") or info.get("clientVersion") or "an unknown engine"),
        at=at.isoformat(timespec="seconds").replace("+00:00", "Z"),
        is_by_cutover=operation == "WRITE"
        and all(map(checksums.parse_name, adds))
        and bool(adds or info.get("userMetadata")),
    )


def _folder_kind(path: str) -> str | None:
    return path.partition("/")[0].removeprefix("_kind=") if path.startswith("_kind=") else None


def _count_different_rows(table: DeltaTable, old_files: Live, new_files: Live) -> tuple[int, int] | None:
    """Count the rows that were removed and added with the files that differ; None: a file can no longer be read."""
    removed_files = {path: kind for path, kind in old_files.items() if path not in new_files}
    added_files = {path: kind for path, kind in new_files.items() if path not in old_files}
    root = delta.local_root(table)
    if root is None:
        return None
    try:
        delta.check_listed_files(table, [{"path": path} for path in (*removed_files, *added_files)])
        with queries.open_duckdb() as connection:
            for name, files in (("removed", removed_files), ("added", added_files)):
                connection.execute(f"CREATE TEMP VIEW {name} AS {_rows_sql(table, root, files)}")
            pairs = (("removed", "added"), ("added", "removed"))
            counts = (f"SELECT count(*) FROM (FROM {a} EXCEPT ALL FROM {b})" for a, b in pairs)
            removed, added = (connection.execute(query).fetchall()[0][0] for query in counts)
            return int(removed), int(added)
    except (LakeError, duckdb.Error):
        return None


def _rows_sql(table: DeltaTable, root: Path, files: Live) -> str:
    schema = delta.read_schema(table)
    is_split = bool(table.metadata().partition_columns)
    parts = [
        select_rows_sql(schema, [str(delta.file_path(root, {"path": path}))], (("_kind", kind),) if is_split else ())
        for path, kind in files.items()
    ]
    return " UNION ALL ".join(parts) or nothing(schema)
