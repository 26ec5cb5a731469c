"""What another writer did to a table of ours: found by the weight of its listed files, judged by their rows.

Whoever committed last has recorded what all listed files weigh after it (`checksums`). Where that no longer holds, or a
file has a name that we never give, the table's own log tells who was at work, for as long as it is kept: what others
did is undone in thought, entry by entry, until the files weigh what they should. If the rows before and after are the
same, files were only rewritten (OPTIMIZE): no harm, and their writer may take them over. All else is a change that no
path made, and nothing is said of such rows until it is undone or computed anew.
"""

# ruff: noqa: S608 -- every name in a query is quoted

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import duckdb
from deltalake import DeltaTable

from cutover.engine import queries
from cutover.errors import LakeError
from cutover.lake.tables import checksums, delta, delta_log
from cutover.lake.tables.checksums import Name
from cutover.lake.tables.file_rows import nothing, select
from cutover.timestamps import from_micros

RUNBOOK = "ForeignWrite"
_SHOWN = 3  # commits that a message names

Live = Mapping[str, str | None]  # path -> value of the partition column `_kind`


class Kind(StrEnum):
    """What a change is."""

    HARMLESS = "harmless"  # other files, the same rows
    FOREIGN = "foreign"  # other rows, by another writer
    UNFINISHED = "unfinished"  # by a run of ours that was never recorded: killed, or still at work


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommit:
    """One entry of a table's log that changed what it lists."""

    version: int
    operation: str
    engine: str
    at: str  # ISO 8601, UTC
    ours: bool

    def __str__(self) -> str:
        """Name table version, operation, engine and time, as messages do."""
        return f"table version {self.version}, {self.operation} by {self.engine} at {self.at}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """How a table differs from what its last writer of ours left."""

    uri: str
    kind: Kind
    commits: tuple[TableCommit, ...] = ()  # oldest first; none: its log no longer tells
    base: int | None = None  # table version before them
    gone: int | None = None  # rows that are there no more; None: nobody can count them now
    came: int | None = None
    missing: int = 0  # weight of the files that are listed no more
    seen_by: str | None = None  # who saw a table that is there no more; None: it is there
    noted: int | None = None  # number of a row, noted when it was written, that is newer than the table; None: none is

    @property
    def sentence(self) -> str:
        """Return who did what, when, with how many rows."""
        if self.seen_by is not None:
            return f"Table `{self.uri}`: expected it to be there, {self.seen_by} saw it; its folder is gone."
        if self.noted is not None:
            return f"Table `{self.uri}`: expected row {self.noted}, which was noted, got an older copy of the table."
        if self.kind is Kind.UNFINISHED:
            said = ", ".join(map(str, self.commits[:_SHOWN]))
            return f"Table `{self.uri}`: expected what the newest recorded run left, got that of another one: {said}."
        rows = "an unknown number of rows" if self.gone is None else f"{self.gone:,} rows went, {self.came:,} came"
        said = "; ".join(map(str, self.commits[-_SHOWN:])) or "a commit that its log no longer tells of"
        more = f" and {len(self.commits) - _SHOWN} more" if len(self.commits) > _SHOWN else ""
        return f"Table `{self.uri}`: expected no writer but ours, got {said}{more}: {rows}."

    @property
    def runbook(self) -> str:
        """`BatchNotFresh` for a run of ours that is not finished, else `ForeignWrite`."""
        return "BatchNotFresh" if self.kind is Kind.UNFINISHED else RUNBOOK

    def message(self, otherwise: str) -> str:
        """Sentence and hint, a line each, as an error has them."""
        return f"{self.sentence}\n{self.hint(otherwise)}"

    def hint(self, otherwise: str) -> str:
        """Return how it is undone, and what else mends it."""
        if self.kind is Kind.UNFINISHED:
            return "Hint: a batch run is at work, or was killed: the next `cutover batch` ends it."
        if self.seen_by is not None:
            return f"Hint: put it back from a copy; {otherwise}."
        if self.noted is not None:
            return "Hint: put the newest copy back."
        if self.base is None or self.base < 0:  # before the table was made there is nothing to go back to
            return f"Hint: {otherwise}."
        return f"Hint: `DeltaTable({self.uri!r}).restore({self.base})` undoes it (Spark: RESTORE); {otherwise}."


@dataclass(slots=True)
class _Undone:
    """A table's files while entries are undone in thought."""

    live: dict[str, str | None]

    def undo(self, entry: delta_log.Entry) -> None:
        for action in entry:
            if "add" in action:
                self.live.pop(action["add"]["path"], None)
        for action in entry:
            if "remove" in action:
                values = action["remove"].get("partitionValues") or {}
                self.live[action["remove"]["path"]] = values.get("_kind", _folder_kind(action["remove"]["path"]))


def change(
    table: DeltaTable, expected: int | None, *, skips: Callable[[Name], bool] = lambda _: False
) -> TableChange | None:
    """Return how a table differs from what was recorded of it; None: not at all.

    Args:
        table: The handle.
        expected: What its files weigh, as its last writer of ours recorded; None: nobody records it of this table, so
            that only files of others tell of them.
        skips: Files that no record counts on, such as those of a run that was killed.
    """
    live = {str(a["path"]): a.get("partition._kind") for a in delta.actions(table)}
    if _holds(live, expected, skips):
        return None
    delta.refuse_damaged_log(table.table_uri)
    names = [name for name in map(checksums.name_of, live) if name is not None and not skips(name)]
    missing = ((expected or 0) - sum(name.weight for name in names)) % (1 << 128)
    uri = str(delta.local_root(table) or table.table_uri)
    entries = list(_entries(table))
    for undone, commits, base in _states(live, entries, expected, skips):
        theirs = tuple(commit for commit in commits if not commit.ours)
        if not theirs:
            return TableChange(uri=uri, kind=Kind.UNFINISHED, commits=commits, base=base)
        rows = _difference(table, undone, live)
        gone, came = (None, None) if rows is None else rows
        kind = Kind.HARMLESS if rows == (0, 0) else Kind.FOREIGN
        return TableChange(uri=uri, kind=kind, commits=theirs, base=base, gone=gone, came=came, missing=missing)
    theirs = tuple(commit for commit, _ in reversed(entries) if not commit.ours)
    return TableChange(uri=uri, kind=Kind.FOREIGN, commits=theirs, missing=missing)


def find_removed(table: DeltaTable) -> TableChange:
    """Return the change of a table that lacks rows of ours, by all that others did to it, as far as its log tells."""
    entries = list(_entries(table))
    theirs = tuple(commit for commit, _ in reversed(entries) if not commit.ours)
    behind = theirs and any(commit.ours and commit.version > theirs[0].version for commit, _ in entries)
    base = theirs[0].version - 1 if theirs and not behind else None
    return TableChange(
        uri=str(delta.local_root(table) or table.table_uri), kind=Kind.FOREIGN, commits=theirs, base=base
    )


def refuse(
    table: DeltaTable, expected: int | None, *, otherwise: str, skips: Callable[[Name], bool] = lambda _: False
) -> TableChange | None:
    """Let pass what changed no row (a harmless change, or None); refuse everything else.

    Raises:
        LakeError: Another writer changed rows.
    """
    found = change(table, expected, skips=skips)
    if found is not None and found.kind is Kind.FOREIGN:
        raise LakeError(found.message(otherwise), runbook=RUNBOOK)
    return found


def _holds(live: Live, expected: int | None, skips: Callable[[Name], bool]) -> bool:
    names = [checksums.name_of(path) for path in live]
    if any(name is None for name in names):
        return False
    weight = sum(name.weight for name in names if name is not None and not skips(name)) % (1 << 128)
    return expected is None or weight == expected


def _states(
    live: Live,
    entries: Sequence[tuple[TableCommit, delta_log.Entry]],
    expected: int | None,
    skips: Callable[[Name], bool],
) -> Iterator[tuple[Live, tuple[TableCommit, ...], int | None]]:
    """Yield the files that weigh what they should, the commits behind which they lie, the table version.

    First what others did alone is undone, since ours may have gone on beside it; then everything.
    """
    for only_theirs in (True, False):
        undone, commits = _Undone(dict(live)), list[TableCommit]()
        for commit, entry in entries:
            if only_theirs and commit.ours:
                continue
            undone.undo(entry)
            commits.insert(0, commit)
            if _holds(undone.live, expected, skips):
                behind = [c for c, _ in entries if c.ours and c.version > commit.version]
                yield undone.live, tuple(commits), None if behind and only_theirs else commit.version - 1
                return


def _entries(table: DeltaTable) -> Iterator[tuple[TableCommit, delta_log.Entry]]:
    """Yield the entries that changed files, newest first, down to the first that is no longer kept."""
    for version in range(int(table.version()), -1, -1):
        entry = delta_log.read(table.table_uri, version)
        if entry is None:
            return
        adds = [action["add"]["path"] for action in entry if "add" in action]
        if adds or any("remove" in action for action in entry):
            yield _commit(version, entry, adds), entry


def _commit(version: int, entry: delta_log.Entry, adds: Sequence[str]) -> TableCommit:
    info = delta_log.info(entry)
    operation = str(info.get("operation", "a commit without a name"))
    at = from_micros(int(info.get("timestamp", 0)) * 1000)
    return TableCommit(
        version=version,
        operation=operation,
        engine=str(info.get("engineInfo") or info.get("clientVersion") or "an unknown engine"),
        at=at.isoformat(timespec="seconds").replace("+00:00", "Z"),
        ours=operation == "WRITE" and all(map(checksums.name_of, adds)) and bool(adds or info.get("userMetadata")),
    )


def _folder_kind(path: str) -> str | None:
    return path.partition("/")[0].removeprefix("_kind=") if path.startswith("_kind=") else None


def _difference(table: DeltaTable, before: Live, after: Live) -> tuple[int, int] | None:
    """Return how many rows went and came with the files that are not in both; None: a file cannot be read any more."""
    gone = {path: kind for path, kind in before.items() if path not in after}
    came = {path: kind for path, kind in after.items() if path not in before}
    root = delta.local_root(table)
    if root is None:
        return None
    try:
        delta.check(table, [{"path": path} for path in (*gone, *came)])
        with queries.connect() as connection:
            for name, files in (("gone", gone), ("came", came)):
                connection.execute(f"CREATE TEMP VIEW {name} AS {_rows(table, root, files)}")
            pairs = (("gone", "came"), ("came", "gone"))
            counts = (f"SELECT count(*) FROM (FROM {a} EXCEPT ALL FROM {b})" for a, b in pairs)
            first, second = (connection.execute(query).fetchall()[0][0] for query in counts)
            return int(first), int(second)
    except (LakeError, duckdb.Error):
        return None


def _rows(table: DeltaTable, root: Path, files: Live) -> str:
    schema = delta.read_schema(table)
    is_split = bool(table.metadata().partition_columns)
    parts = [
        select(schema, [str(delta.file_path(root, {"path": path}))], (("_kind", kind),) if is_split else ())
        for path, kind in files.items()
    ]
    return " UNION ALL ".join(parts) or nothing(schema)
