"""Log of Spark's streaming file sink (`_spark_metadata`): the files that committed batches wrote.

A batch that failed after it wrote files is written again under other names, so the folder holds files twice that the
log lists once. The log has a file per batch, and every few batches one (`N.compact`) with all entries up to it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from urllib.parse import unquote, urlsplit

from cutover.errors import LakeError

LOG = "_spark_metadata"
_VERSION = "v1"
_COMPACT = ".compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class _SinkEntry:
    """Entry of the log: one file of a committed batch."""

    path: str  # a URI of the place at which it was written
    size: int
    is_deleted: bool


def list_sink_files(table: Path) -> list[str]:
    """List the files of all committed batches, in order of their paths.

    Raises:
        LakeError: The log lacks a batch or cannot be parsed, or a file is missing or has another size.
    """
    entries: dict[str, _SinkEntry] = {}
    for file in _list_log_files(table):
        for entry in _read_log_file(table, file):
            entries[entry.path] = entry
    return sorted(_find_file(table, entry) for entry in entries.values() if not entry.is_deleted)


def _list_log_files(table: Path) -> list[Path]:
    """Return the newest compacted file and the batches after it."""
    batches: dict[int, Path] = {}
    compacted: dict[int, Path] = {}
    for file in (table / LOG).iterdir():
        number = file.name.removesuffix(_COMPACT)
        if number.isdigit():
            (compacted if file.name.endswith(_COMPACT) else batches)[int(number)] = file
    if not batches and not compacted:
        _reject(table, "nothing that a committed batch wrote")
    start = max(compacted, default=-1)
    later = sorted(number for number in batches if number > start)
    if later != list(range(start + 1, start + 1 + len(later))):
        missing = next(n for n, number in enumerate(later, start + 1) if n != number)
        _reject(table, f"no entry of batch {missing}")
    return [*([compacted[start]] if start >= 0 else []), *(batches[number] for number in later)]


def _read_log_file(table: Path, file: Path) -> list[_SinkEntry]:
    lines = file.read_text(encoding="utf-8").splitlines()
    if not lines or lines[0] != _VERSION:
        _reject(table, f"`{file.name}` of version {lines[0][:20] if lines else 'none'!r}")
    try:
        return [_parse_entry(json.loads(line)) for line in lines[1:] if line]
    except (ValueError, KeyError, TypeError):
        _reject(table, f"`{file.name}`, which is no list of files")


def _parse_entry(entry: Mapping[str, object]) -> _SinkEntry:
    action = entry["action"]
    if action not in {"add", "delete"}:
        raise ValueError(action)
    return _SinkEntry(path=str(entry["path"]), size=int(str(entry["size"])), is_deleted=action == "delete")


def _find_file(table: Path, entry: _SinkEntry) -> str:
    """Return the path of a listed file; a folder that was moved holds it under the same relative path."""
    written = Path(unquote(urlsplit(entry.path).path))
    tails = [Path(*written.parts[n:]) for n in range(1, len(written.parts))]
    places = (
        [written, *(table / tail for tail in tails)]
        if written.is_relative_to(table.absolute())
        else [table / tail for tail in tails]
    )
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        _reject(table, f"no file `{written.name}`, which is listed")
    if path.stat().st_size != entry.size:
        _reject(table, f"{path.stat().st_size:,} bytes of `{written.name}` instead of {entry.size:,}")
    return str(path)


def _reject(table: Path, found: str) -> NoReturn:
    msg = f"Table `{table}`: expected every file that the log of Spark's sink (`{LOG}`) lists, found {found}."
    raise LakeError(msg + "\nHint: read a copy that `INSERT ... SELECT` made of it.", runbook="TableUnreadable")
