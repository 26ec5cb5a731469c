"""Position in the metadata of a Delta table's commits: the `userMetadata` of the newest one that wrote rows.

OPTIMIZE and VACUUM change no row, so they leave the position as it is. A commit that only deletes or restores rows, or
that creates or alters the table, carries no position even if it has the same `userMetadata`: a job that sets it in its
session would otherwise state a position before it has written the rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from cutover.errors import LakeError
from cutover.lake.tables import delta, delta_log
from cutover.output.cells import visible
from cutover.positions.contract import carries_position, parse_position
from cutover.positions.position import Position, PositionReport, UnknownPosition, find_retreat
from cutover.positions.stored_files import find_stored_file

_DELETING = frozenset({"DELETE", "TRUNCATE", "RESTORE", "CLONE", "FSCK"})
_WRITING = frozenset({"WRITE", "MERGE", "STREAMING UPDATE", "COPY INTO"})
_AS_SELECT = "AS SELECT"
MAX_EARLIER = 200
"""Commits, back from the newest, whose positions are compared with it."""

_SHOWN = 40  # characters of foreign `userMetadata`


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaChange:
    """Newest commit of a table that changed its rows, or recorded that a write changed none."""

    version: int
    operation: str  # `MERGE`, `WRITE`, ...
    user_metadata: object  # of a commit that wrote rows, else None
    newest_version: int  # of the table; later ones than `version` changed no row
    committed_at: int | None  # microseconds, by the clock of its writer


def is_delta_table(uri: str) -> bool:
    """Return whether a Delta table lies at `uri`, which may also be a file.

    Raises:
        LakeError: The place cannot be read.
    """
    return find_stored_file(uri) is None and delta.exists(uri)


def find_newest_change(uri: str) -> DeltaChange | None:
    """Find the newest commit that changed rows, or that carries a position as a write of no rows; None: no commit did.

    Raises:
        LakeError: There is no Delta table, or its log no longer has all commits since then.
    """
    table = delta.open_table(uri, reads_rows=False)
    newest_version = int(table.version())
    for version in range(newest_version, -1, -1):
        entry = delta_log.read_entry(uri, version)
        if entry is None:
            msg = f"Table `{uri}`: expected the commit that wrote its newest rows, the log does not have version "
            raise LakeError(msg + f"{version}, and the later ones changed none.")
        info = delta_log.info(entry)
        operation, user_metadata = str(info.get("operation", "")), info.get("userMetadata")
        changes_rows = any(_list_changes(entry))
        can_carry = operation not in _DELETING if changes_rows else _writes_rows(operation)
        if changes_rows or (can_carry and carries_position(user_metadata)):
            return DeltaChange(
                version=version,
                operation=operation,
                user_metadata=user_metadata if can_carry else None,
                newest_version=newest_version,
                committed_at=_parse_millis(info.get("timestamp")),
            )
    return None


def find_commit_position(uri: str) -> PositionReport:
    """Find the position that the newest commit with rows carries; unknown if it carries none.

    Raises:
        LakeError: As `find_newest_change`, or the position is malformed, or names another version of the table.
    """
    change = find_newest_change(uri)
    if change is None:
        return PositionReport(position=UnknownPosition("no commit has written rows"), source="`userMetadata`")
    name = f"version {change.version} ({change.operation})"
    source = f"`userMetadata` of {name}"
    if not carries_position(change.user_metadata):
        return PositionReport(position=UnknownPosition(f"{name} {_describe_missing(change)}"), source=source)
    place = f"Table `{uri}`, version {change.version}, `userMetadata`"
    position = parse_position(str(change.user_metadata), place=place)
    if position.table_version not in {None, change.version}:
        msg = f"{place}: expected a position of version {change.version}, got one of version {position.table_version}."
        raise LakeError(msg + "\nHint: leave out `table`: a commit belongs to its own version.")
    later = change.newest_version - change.version
    notes = [f"Versions {change.version + 1} to {change.newest_version} changed no row."] if later else []
    contradiction, further_notes = _compare_with_earlier(uri, change.version, position)
    return PositionReport(
        position=contradiction or replace(position, table_version=change.version),
        source=source,
        notes=(*notes, *further_notes),
        recorded_at=change.committed_at,
    )


def _parse_millis(time: object) -> int | None:
    return time * 1000 if type(time) is int else None


def _compare_with_earlier(uri: str, version: int, position: Position) -> tuple[UnknownPosition | None, list[str]]:
    """Compare a position with those that earlier commits state, back to the last one that replaced all rows.

    A position that goes back, or that leaves out what an earlier one names, is that of another job: the table has the
    rows of both.
    """
    notes = list[str]()
    for earlier in range(version, max(-1, version - MAX_EARLIER), -1):
        entry = delta_log.read_entry(uri, earlier)
        info = {} if entry is None else delta_log.info(entry)
        text, operation = info.get("userMetadata"), str(info.get("operation", ""))
        if entry is None:
            break
        if earlier < version and carries_position(text) and (any(_list_changes(entry)) or _writes_rows(operation)):
            place = f"Table `{uri}`, version {earlier}, `userMetadata`"
            difference = find_retreat(position, parse_position(str(text), place=place))
            if difference is not None:
                return UnknownPosition(
                    f"version {earlier} states {difference}: another job writes the table, too"
                ), notes
        elif earlier < version and any(_list_changes(entry)):
            notes.append(f"Version {earlier} ({operation}) changed rows without a position.")
        if _replaces_all_rows(operation, info.get("operationParameters")):
            break
    return None, notes[:1]


def _replaces_all_rows(operation: str, parameters: object) -> bool:
    """Return whether a commit left no row of the positions before: an overwrite of the whole table, or a restore."""
    if operation in {"RESTORE", "TRUNCATE"} or operation.endswith(_AS_SELECT):
        return True
    if operation != "WRITE" or not isinstance(parameters, dict):
        return False
    is_partial = any(
        ("predicate" in name.lower() or "dynamic" in name.lower()) and value not in {None, "", "[]", "false", False}
        for name, value in parameters.items()
        if not isinstance(value, list | dict)
    )
    return str(parameters.get("mode", "")).lower() == "overwrite" and not is_partial


def _list_changes(entry: delta_log.Entry) -> Iterator[bool]:
    """Yield for each added and removed file whether it changes rows; OPTIMIZE says that its files do not."""
    for action in entry:
        file: Any = action.get("add") or action.get("remove")
        if isinstance(file, dict):
            yield bool(file.get("dataChange", True))


def _writes_rows(operation: str) -> bool:
    return operation in _WRITING or operation.endswith(_AS_SELECT)


def _describe_missing(change: DeltaChange) -> str:
    if change.operation in _DELETING:
        return "changed rows, and a commit that only deletes or restores rows carries no position"
    if not change.user_metadata:
        by_query = ": name the checkpoint of its streaming query" if change.operation == "STREAMING UPDATE" else ""
        return f"changed rows without a position in its `userMetadata`{by_query}"
    text = visible(str(change.user_metadata)[:_SHOWN])
    return f"changed rows with other `userMetadata` than a position, `{text}`"
