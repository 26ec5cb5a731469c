"""The log of a Delta table, entry by entry: what a plain open passes over in silence, and which file fails it.

A last entry of 0 bytes reads as an empty version, without an error. Half an entry, or a hole, fails every open, and the
error does not name the file. An entry that clean-up took away below a checkpoint is no damage.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyarrow import fs

FOLDER = "_delta_log"
_LOOKS = 3  # at a folder that changes meanwhile
_DIGITS = 20

Entry = list[dict[str, Any]]  # actions: commitInfo, txn, add, remove, ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """The first entry that is not as a writer leaves it."""

    file: str  # relative to the table's folder
    what: str  # "has 0 bytes", "is missing", ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    commits: frozenset[int]
    checkpoint: int  # newest; -1 if there is none

    @property
    def after_checkpoint(self) -> range:
        return range(self.checkpoint + 1, max(self.commits, default=-1) + 1)


def damage(uri: str) -> Damage | None:
    """Return the first damaged entry that a reader of the newest version needs; None if all are whole."""
    found = None
    for _ in range(_LOOKS):  # clean-up may run meanwhile: what is damaged stays so
        listing = _listed(uri)
        found = next(_damaged(uri, listing), None)
        if found is None:
            return None
    return found


def entries(uri: str) -> Iterator[tuple[int, Entry]]:
    """Yield version and actions of the entries that no checkpoint covers, newest first; damaged ones are left out."""
    for version in reversed(_listed(uri).after_checkpoint):
        entry = _parsed(_text(uri, version) or "")
        if entry is not None:
            yield version, entry


def file_of(version: int) -> str:
    """Return the file of an entry, relative to the table's folder."""
    return f"{FOLDER}/{version:0{_DIGITS}d}.json"


def info(entry: Entry) -> dict[str, Any]:
    """Return what an entry says of itself: operation, time, `userMetadata`; empty if it says nothing."""
    return next((action["commitInfo"] for action in entry if "commitInfo" in action), {})


def _damaged(uri: str, listing: _Listing) -> Iterator[Damage]:
    for version in listing.after_checkpoint:
        what = _what(_text(uri, version))
        if what is not None:
            yield Damage(file=file_of(version), what=what)


def _what(text: str | None) -> str | None:
    if text is None:
        return "is missing"
    if not text.strip():
        return "has 0 bytes"
    entry = _parsed(text)
    if entry is None:
        return "is no JSON"
    return None if info(entry) else "says nothing of its commit"


def _parsed(text: str) -> Entry | None:
    try:
        actions = [json.loads(line) for line in text.splitlines() if line.strip()]
    except ValueError:
        return None
    return actions if actions and all(isinstance(action, dict) for action in actions) else None


def _listed(uri: str) -> _Listing:
    system, root = fs.FileSystem.from_uri(uri)
    selector = fs.FileSelector(f"{root.rstrip('/')}/{FOLDER}", allow_not_found=True)
    names = [found.base_name for found in system.get_file_info(selector)]
    numbered = [(name[_DIGITS:], int(name[:_DIGITS])) for name in names if name[:_DIGITS].isdigit()]
    checkpoints = [number for rest, number in numbered if rest.startswith(".checkpoint")]
    commits = frozenset(number for rest, number in numbered if rest == ".json")
    return _Listing(commits=commits, checkpoint=max(checkpoints, default=-1))


def _text(uri: str, version: int) -> str | None:
    system, root = fs.FileSystem.from_uri(uri)
    try:
        with system.open_input_stream(f"{root.rstrip('/')}/{file_of(version)}") as stream:
            return str(stream.read().decode("utf-8", errors="replace"))
    except FileNotFoundError:
        return None
