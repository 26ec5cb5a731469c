"""Position in a table's own metadata: in a commit of a Delta table, or in the summary of an Iceberg snapshot.

It is the `userMetadata` of the newest Delta commit that wrote rows. OPTIMIZE and VACUUM change no row, so they leave
the position as it is. A commit that only deletes or restores rows, or that creates or alters the table, carries no
position even if it has the same `userMetadata`: a job that sets it in its session would otherwise state a position
before it has written the rows.

Of Iceberg it is the property `cutover.position` of the newest snapshot that wrote rows, read from the table's metadata
file, without a catalog. The version of the position is the id of its snapshot, so what it states holds for that
snapshot even where a catalog names another one as the current one.

Small files of a table, on this machine or in an object store, are read whole, or listed with times.

Source:
    Apache Iceberg, Table Spec, "Table Metadata Fields" and "Snapshots" (`summary`, operation `replace`).
"""

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyarrow import fs

from cutover.engine import storage
from cutover.errors import LakeError
from cutover.lake.tables import delta, delta_log
from cutover.output.cells import visible
from cutover.positions.position import (
    Position,
    PositionReport,
    UnknownPosition,
    carries_position,
    find_retreat,
    parse_position,
)

MAX_BYTES = 256 * 1024 * 1024
"""Maximum size of a file that is read whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """File of a table."""

    path: str  # relative to the folder that was listed
    written_at: int  # nanoseconds, by the clock of the store
    size: int  # bytes


def read_stored_text(uri: str) -> str | None:
    """Read the text of a file; None if there is none. A file called `*.gz` or `*.gz.*` is decompressed.

    Raises:
        LakeError: It cannot be read, is no text in UTF-8, or is larger than `MAX_BYTES`.
    """
    try:
        system, path = storage.resolve_uri(uri)
        info = system.get_file_info(path)
        if not info.is_file:
            return None
        if info.size > MAX_BYTES:
            msg = f"File `{uri}`: expected at most {MAX_BYTES:,} bytes, got {info.size:,}."
            raise LakeError(msg)
        with system.open_input_file(path) as stream:
            content = bytes(stream.read())
        name = path.rpartition("/")[2]
        return (gzip.decompress(content) if ".gz." in f"{name}." else content).decode("utf-8")
    except (OSError, EOFError, ValueError, NotImplementedError) as error:
        msg = f"File `{uri}`: expected a text in UTF-8 that can be read, got: {str(error).splitlines()[0]}."
        raise LakeError(msg) from error


def find_stored_file(uri: str) -> StoredFile | None:
    """Find a file by its URI; None if there is none.

    Raises:
        LakeError: The place cannot be read.
    """
    try:
        system, path = storage.resolve_uri(uri)
        info = system.get_file_info(path)
    except (OSError, ValueError, NotImplementedError) as error:
        msg = f"File `{uri}`: expected a place that can be read, got: {str(error).splitlines()[0]}."
        raise LakeError(msg) from error
    if not info.is_file:
        return None
    return StoredFile(path=info.base_name, written_at=int(info.mtime_ns or 0), size=int(info.size))


def list_stored_files(uri: str) -> list[StoredFile] | None:
    """List the visible files of a folder and of those in it, by path; None if it is no folder.

    Names that begin with `_` or `.` are hidden, as for Spark, unless they are `column=value`.

    Raises:
        LakeError: It cannot be listed.
    """
    try:
        system, root = storage.resolve_uri(uri)
        if system.get_file_info(root).type is not fs.FileType.Directory:
            return None
        infos = system.get_file_info(fs.FileSelector(root, recursive=True))
    except (OSError, ValueError, NotImplementedError) as error:
        msg = f"Folder `{uri}`: expected one that can be listed, got: {str(error).splitlines()[0]}."
        raise LakeError(msg) from error
    files = [
        StoredFile(path=info.path[len(root) :].lstrip("/"), written_at=int(info.mtime_ns or 0), size=int(info.size))
        for info in infos
        if info.is_file
    ]
    return sorted((file for file in files if not _is_hidden(file.path)), key=lambda file: file.path)


def _is_hidden(path: str) -> bool:
    return any(part.startswith(("_", ".")) and "=" not in part for part in path.split("/"))


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


PROPERTY = "cutover.position"
"""Name of the property in the summary of a snapshot."""

_METADATA = re.compile(r"metadata/v?(?P<number>[0-9]{1,18})(-[^/]*)?(\.gz)?\.metadata\.json(\.gz)?")
_TOTALS, _CHANGES = ("total-records", "total-data-files", "total-delete-files"), ("added-", "deleted-", "removed-")
_HINT = "metadata/version-hint.text"


def is_iceberg_table(uri: str) -> bool:
    """Return whether a folder holds a metadata file of Iceberg, or the path is that of one."""
    return _is_metadata_file(uri) or bool(_list_metadata_files(uri))


def find_snapshot_position(uri: str) -> PositionReport:
    """Find the position that the newest snapshot with rows carries; unknown if it carries none.

    Args:
        uri: Folder of the table, or its metadata file.

    Raises:
        LakeError: The metadata cannot be read, two files of it are the newest ones, or the position is malformed.
    """
    file = uri if _is_metadata_file(uri) else f"{uri.rstrip('/')}/{_find_newest_file(uri)}"
    metadata = _parse_metadata(file)
    notes = [] if _is_metadata_file(uri) else [f"Read from `{file.rpartition('/')[2]}`, the newest in the folder."]
    later = 0
    for snapshot in _list_snapshots(file, metadata):
        summary = _get_summary(snapshot)
        operation, text = str(summary.get("operation", "")), summary.get(PROPERTY)
        if operation == "replace" or (text is None and _changes_no_row(metadata, snapshot)):
            later += 1
            continue
        name = f"snapshot {snapshot['snapshot-id']} ({operation or 'no operation'})"
        source = f"property `{PROPERTY}` of {name}"
        if operation == "delete":
            reason = f"{name} changed rows, and a snapshot that only deletes rows carries no position"
            return PositionReport(position=UnknownPosition(reason), source=source)
        if not text:
            reason = f"{name} changed rows without the property `{PROPERTY}`"
            return PositionReport(position=UnknownPosition(reason), source=source)
        place = f"Table `{uri}`, snapshot {snapshot['snapshot-id']}, `{PROPERTY}`"
        position = parse_position(str(text), place=place)
        if position.table_version not in {None, snapshot["snapshot-id"]}:
            msg = f"{place}: expected a position of this snapshot, got one of {position.table_version}."
            raise LakeError(msg + "\nHint: leave out `table`: a snapshot has its own id.")
        notes += ["Later snapshots changed no row."] if later else []
        known = replace(position, table_version=int(snapshot["snapshot-id"]))
        contradiction = _compare_with_ancestors(metadata, snapshot, position)
        time = snapshot.get("timestamp-ms")
        recorded_at = time * 1000 if type(time) is int else None
        return PositionReport(
            position=contradiction or known, source=source, notes=tuple(notes), recorded_at=recorded_at
        )
    return PositionReport(position=UnknownPosition("no snapshot has written rows"), source=f"property `{PROPERTY}`")


def find_newest_snapshot(uri: str) -> tuple[int, ...]:
    """Find the ids of the newest snapshot with other rows than before, and of later ones that only rewrote files.

    Raises:
        LakeError: The metadata cannot be read.
    """
    file = uri if _is_metadata_file(uri) else f"{uri.rstrip('/')}/{_find_newest_file(uri)}"
    ids, metadata = list[int](), _parse_metadata(file)
    for snapshot in _list_snapshots(file, metadata):
        ids.append(int(snapshot["snapshot-id"]))
        if not _changes_no_row(metadata, snapshot):
            break
    return tuple(ids)


def _compare_with_ancestors(
    metadata: Mapping[str, Any], snapshot: Mapping[str, Any], position: Position
) -> UnknownPosition | None:
    """Compare a position with those of the snapshots before, back to the last one whose rows are all its own."""
    snapshots = {s.get("snapshot-id"): s for s in metadata.get("snapshots", []) if isinstance(s, dict)}
    ancestor: Mapping[str, Any] | None = snapshot
    while ancestor is not None:
        summary = _get_summary(ancestor)
        text = summary.get(PROPERTY)
        if ancestor is not snapshot and carries_position(text):
            try:
                difference = find_retreat(position, parse_position(str(text), place=PROPERTY))
            except LakeError:
                difference = None
            if difference is not None:
                name = f"snapshot {ancestor['snapshot-id']}"
                return UnknownPosition(f"{name} states {difference}: another job writes the table, too")
        if summary.get("added-records") is not None and summary.get("added-records") == summary.get("total-records"):
            return None
        ancestor = snapshots.pop(ancestor.get("parent-snapshot-id"), None)
    return None


def _get_summary(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    summary = snapshot.get("summary")
    return summary if isinstance(summary, dict) else {}


def _changes_no_row(metadata: Mapping[str, Any], snapshot: Mapping[str, Any]) -> bool:
    """Return whether a snapshot shows that it has the rows of its parent: a rewrite of files, or a write of no rows.

    The counts of a summary are optional, so that the totals have to show that they are written.
    """
    summary = _get_summary(snapshot)
    if summary.get("operation") == "replace" or summary.get("changed-partition-count") == "0":
        return True
    snapshots = [s for s in metadata.get("snapshots", []) if isinstance(s, dict)]
    parents = [s for s in snapshots if s.get("snapshot-id") == snapshot.get("parent-snapshot-id")]
    totals = [{name: _get_summary(s).get(name) for name in _TOTALS} for s in (snapshot, *parents)]
    changes = [value for name, value in summary.items() if name.startswith(_CHANGES) and value != "0"]
    has_parent_totals = len(totals) > 1 and None not in totals[0].values() and totals[0] == totals[1]
    return has_parent_totals and not changes


def _is_metadata_file(uri: str) -> bool:
    return uri.endswith((".metadata.json", ".metadata.json.gz"))


def _list_metadata_files(uri: str) -> dict[str, int]:
    """Map the paths of the metadata files in a table's folder to their numbers."""
    if "://" not in uri and list_stored_files(f"{uri}/metadata") is None:
        return {}
    files = list_stored_files(f"{uri.rstrip('/')}/metadata") or []
    matches = [_METADATA.fullmatch(f"metadata/{file.path}") for file in files]
    return {match[0]: int(match["number"]) for match in matches if match is not None}


def _find_newest_file(uri: str) -> str:
    """Find the newest metadata file: by number, as a table without a catalog has it."""
    numbers = _list_metadata_files(uri)
    hint = (read_stored_text(f"{uri.rstrip('/')}/{_HINT}") or "").strip()
    newest = max(numbers.values())
    files = sorted(path for path, number in numbers.items() if number == newest)
    if hint.isascii() and hint.isdigit() and int(hint) > newest:
        msg = f"Table `{uri}`: expected the metadata file {hint}, which `{_HINT}` names, the newest is {newest}."
        raise LakeError(msg)
    if len(files) > 1:
        names = " and ".join(f"`{path.rpartition('/')[2]}`" for path in files[:2])
        msg = f"Table `{uri}`: expected one newest metadata file, got {names}: a commit failed after it wrote one."
        raise LakeError(msg + "\nHint: name the file that the catalog has: `--table .../metadata/NAME.metadata.json`.")
    return files[0]


def _parse_metadata(file: str) -> dict[str, Any]:
    text = read_stored_text(file)
    try:
        metadata = json.loads(text or "")
    except (ValueError, RecursionError):
        metadata = None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("snapshots", []), list):
        msg = f"File `{file}`: expected the metadata of an Iceberg table as JSON, got none."
        raise LakeError(msg)
    return metadata


def _list_snapshots(file: str, metadata: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the current snapshot and its ancestors, newest first.

    Raises:
        LakeError: One has no id, or is no longer in the metadata.
    """
    snapshots = {s.get("snapshot-id"): s for s in metadata.get("snapshots", []) if isinstance(s, dict)}
    current = metadata.get("current-snapshot-id")
    while current not in {None, -1}:
        snapshot = snapshots.pop(current, None)
        if snapshot is None or type(current) is not int:
            msg = f"File `{file}`: expected the snapshot {current}, which wrote rows, it has expired."
            raise LakeError(msg)
        yield snapshot
        current = snapshot.get("parent-snapshot-id")
