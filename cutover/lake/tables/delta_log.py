"""Log of a Delta table, entry by entry: damage that delta-rs ignores, and the file of damage that it does not name.

A last entry of 0 bytes is read as an empty version, without an error. A truncated or missing entry fails every open,
and the error does not name the file. An entry that clean-up deleted below a checkpoint is no damage.

Readers of a table skip unknown actions, so a changed letter can hide a file or list one again. Commits of Cutover carry
a digest of the files that they list and remove, and of their transactions (`DIGEST`), by which such an entry is
detected.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow import fs

FOLDER = "_delta_log"
_ATTEMPTS = 3  # to read a folder that changes meanwhile
_DIGITS = 20
_NO_FILE = -1  # bytes of an entry that is no file

DIGEST = "cutover.commit"
"""Key in the metadata of a commit: digest of its actions and transactions, see `digest`."""

_ACTIONS = frozenset(
    {
        "add",
        "remove",
        "metaData",
        "protocol",
        "txn",
        "commitInfo",
        "cdc",
        "domainMetadata",
        "sidecar",
        "checkpointMetadata",
    }
)

_DELETION_VECTORS = "deletionVectors"
_READ = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})  # reader features that change no file

Entry = list[dict[str, Any]]  # actions: commitInfo, txn, add, remove, ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """First entry that differs from what its writer committed."""

    file: str  # relative to the table's folder
    what: str  # "has 0 bytes", "is missing", ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    sizes: Mapping[int, int]  # bytes of each existing entry, by version
    checkpoint: int  # newest; -1 if there is none

    @property
    def after_checkpoint(self) -> range:
        return range(self.checkpoint + 1, max(self.sizes, default=-1) + 1)


def find_damage(uri: str, *, read: bool = False) -> Damage | None:
    """Find the first damaged entry that a reader of the newest version needs; None if all are intact.

    Args:
        uri: URI of the table.
        read: Read the entries too, for a table that cannot be opened. Listing them detects missing and empty entries,
            which opening a table may ignore.
    """
    damage = None
    for _ in range(_ATTEMPTS):  # clean-up may run meanwhile; real damage is found in every attempt
        damage = next(_check_entries(uri, _list_entries(uri), read=read), None)
        if damage is None:
            return None
    return damage


def entries(uri: str) -> Iterator[tuple[int, Entry]]:
    """Yield version and actions of the entries that no checkpoint covers, newest first; damaged ones are left out."""
    for version in reversed(_list_entries(uri).after_checkpoint):
        entry = _parse_entry(_text(uri, version) or "")
        if entry is not None:
            yield version, entry


def read_entry(uri: str, version: int) -> Entry | None:
    """Read the actions of one entry; None: it no longer exists, or is damaged."""
    return _parse_entry(_text(uri, version) or "")


def list_removed_paths(uri: str) -> set[str]:
    """List the paths of removed files, from the retained entries and the newest checkpoint."""
    listing = _list_entries(uri)
    retained = [entry for version in listing.sizes if (entry := read_entry(uri, version)) is not None]
    removed = [action["remove"] for entry in retained for action in entry if "remove" in action]
    paths = {
        str(action["path"]) for action in removed if "path" in action
    }  # of a damaged entry: named by `find_damage`
    return paths | set(_list_removed_in_checkpoint(uri, listing.checkpoint))


def _list_removed_in_checkpoint(uri: str, version: int) -> Iterator[str]:
    """Yield the paths of the removed files in a checkpoint."""
    import pyarrow.parquet as pq  # noqa: PLC0415 -- half a second that most commands need not pay

    system, root = fs.FileSystem.from_uri(uri)
    for info in system.get_file_info(fs.FileSelector(f"{root.rstrip('/')}/{FOLDER}")):
        if info.base_name.startswith(f"{version:0{_DIGITS}d}.checkpoint") and info.base_name.endswith(".parquet"):
            with pq.ParquetFile(info.path, filesystem=system) as file:
                for action in file.read(columns=["remove"])["remove"].to_pylist():
                    if action is not None:
                        yield str(action["path"])


def digest(added: Iterable[tuple[str, int]], removed: Iterable[str], transactions: Iterable[tuple[str, int]]) -> str:
    """Return a digest of the files and transactions of a commit.

    Args:
        added: Path and size in bytes of each added file.
        removed: Path of each removed file.
        transactions: Application id and version of each transaction.
    """
    words = [f"add {path} {size}" for path, size in added]
    words += [f"remove {path}" for path in removed]
    words += [f"txn {app_id} {version}" for app_id, version in transactions]
    return hashlib.sha256("\n".join(sorted(words)).encode()).hexdigest()[:32]


def file_of(version: int) -> str:
    """Return the file of an entry, relative to the table's folder."""
    return f"{FOLDER}/{version:0{_DIGITS}d}.json"


def info(entry: Entry) -> dict[str, Any]:
    """Return the metadata of an entry: operation, time, `userMetadata`; empty if it has none."""
    return next((action["commitInfo"] for action in entry if "commitInfo" in action), {})


def _check_entries(uri: str, listing: _Listing, *, read: bool) -> Iterator[Damage]:
    for version in listing.after_checkpoint:
        size = listing.sizes.get(version)
        if size is None:
            yield Damage(file=file_of(version), what="is missing")
        elif size == _NO_FILE:
            yield Damage(file=file_of(version), what="is no file")
        elif size == 0:
            yield Damage(file=file_of(version), what="has 0 bytes")
        elif read:
            entry = _parse_entry(_text(uri, version) or "")
            problem = "cannot be read as JSON in UTF-8" if entry is None else _find_change(entry)
            if problem is not None:
                yield Damage(file=file_of(version), what=problem)


def _find_change(entry: Entry) -> str | None:
    """Find how an entry differs from the one that its writer wrote, by its actions and their digest."""
    unknown = next((name for action in entry for name in action if name not in _ACTIONS), None)
    if unknown is not None:
        return f"holds the action `{unknown}`, which no writer writes"
    committed = info(entry).get(DIGEST)
    added = ((str(a["add"]["path"]), int(a["add"]["size"])) for a in entry if "add" in a)
    removed = (str(a["remove"]["path"]) for a in entry if "remove" in a)
    transactions = ((str(a["txn"]["appId"]), int(a["txn"]["version"])) for a in entry if "txn" in a)
    try:
        is_changed = committed is not None and committed != digest(added, removed, transactions)
    except (KeyError, TypeError, ValueError):
        return "holds an action that lacks a field"
    return "holds other actions than were committed, by their digest" if is_changed else None


def _parse_entry(text: str) -> Entry | None:
    try:
        actions = [json.loads(line) for line in text.splitlines() if line.strip()]
    except ValueError:
        return None
    return actions if actions and all(isinstance(action, dict) for action in actions) else None


def _list_entries(uri: str) -> _Listing:
    system, root = fs.FileSystem.from_uri(uri)
    selector = fs.FileSelector(f"{root.rstrip('/')}/{FOLDER}", allow_not_found=True)
    try:
        infos = [info for info in system.get_file_info(selector) if info.base_name[:_DIGITS].isdigit()]
    except FileNotFoundError:  # created while it was listed, which `allow_not_found` does not allow
        infos = []
    numbered = [
        (info.base_name[_DIGITS:], int(info.base_name[:_DIGITS]), info.size if info.is_file else _NO_FILE)
        for info in infos
    ]
    checkpoints = [number for suffix, number, _ in numbered if suffix.startswith(".checkpoint")]
    sizes = {number: int(size) for suffix, number, size in numbered if suffix == ".json"}
    return _Listing(sizes=sizes, checkpoint=max(checkpoints, default=-1))


def _text(uri: str, version: int) -> str | None:
    system, root = fs.FileSystem.from_uri(uri)
    try:
        with system.open_input_stream(f"{root.rstrip('/')}/{file_of(version)}") as stream:
            return str(stream.read().decode("utf-8"))
    except (OSError, UnicodeDecodeError):
        return None


def list_unread_features(table: DeltaTable) -> list[str]:
    """List the features of a table with which its files alone are not its rows."""
    features = set(table.protocol().reader_features or ()) - _READ
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        features.add("columnMapping")
    if _DELETION_VECTORS in features and not _has_deletion_vectors(table):
        features.remove(_DELETION_VECTORS)
    return sorted(features)


def _has_deletion_vectors(table: DeltaTable) -> bool:
    """Return whether a file of the handle's version has deleted rows; a table may have the feature and none of them."""
    try:
        return any(batch.num_rows for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors()))
    except DeltaError:  # a vector that cannot be read
        return True
