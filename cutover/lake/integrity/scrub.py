"""Scrub: check the bytes of all listed files of a pipeline in portions, whether or not any reader needs them.

Each run continues where the previous one stopped (a note under `home`), up to a number of bytes; after the last file,
the next run starts with the first one again.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from cutover.files import write_json
from cutover.lake.control import versions
from cutover.lake.dimensions import dimension
from cutover.lake.journal import list_row_types
from cutover.lake.tables import checksums, delta
from cutover.pipeline_lake import BATCH_TABLES, PipelineLake, control_uri

PIECE = 2 * 2**30  # bytes of one run

Place = tuple[str, str]  # table, path of a file in it


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrubbed:
    """Result of one run of the scrub."""

    files: int
    size: int  # bytes
    listed: int  # number of all listed files
    is_whole: bool  # whether the run reached the last file
    unnamed: int  # of all listed: files of other writers, whose names have no checksum
    damaged: tuple[str, ...] = ()  # messages, one per file

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that `cutover verify --files --json` prints."""
        return {
            "files": self.files,
            "bytes": self.size,
            "listed": self.listed,
            "is_whole": self.is_whole,
            "unnamed": self.unnamed,
            "damaged": list(self.damaged),
        }


def scrub_files(lake: PipelineLake, *, max_bytes: int | None = PIECE) -> Scrubbed:
    """Check the next files of a pipeline's tables.

    Args:
        lake: Pipeline whose current stream version, batch tables, dimensions and control tables are checked.
        max_bytes: Bytes after which the run stops; None: all files are checked, starting with the first one.

    Raises:
        LakeError: A table cannot be opened.
    """
    listed_files = sorted(_list_files(lake), key=lambda file: file[0])
    note = lake.settings.home.resolve() / "scrub" / f"{lake.name}.json"
    previous_place = None if max_bytes is None else _read_note(note)
    remaining = [file for file in listed_files if previous_place is None or file[0] > previous_place]
    damaged, size, files, checked_place = list[str](), 0, 0, None
    for place, table, action in remaining or listed_files:
        if max_bytes is not None and size >= max_bytes:
            break
        try:
            delta.check_listed_files(table, [action])
        except checksums.FileDamagedError as error:
            damaged.append(error.text)
        size, files, checked_place = size + int(action["size_bytes"]), files + 1, place
    is_whole = files == len(remaining or listed_files)
    write_json(note, None if is_whole else checked_place)
    return Scrubbed(
        files=files,
        size=size,
        listed=len(listed_files),
        is_whole=is_whole,
        unnamed=sum(checksums.parse_name(place[1]) is None for place, _, _ in listed_files),
        damaged=tuple(damaged),
    )


def _read_note(note: Path) -> Place | None:
    """Return the last file that was checked; None: start with the first one."""
    try:
        uri, path = json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return None
    return str(uri), str(path)


def _list_files(lake: PipelineLake) -> Iterator[tuple[Place, DeltaTable, dict[str, Any]]]:
    for uri in _uris(lake):
        if delta.exists(uri):
            table = delta.open_table(uri)
            for action in delta.actions(table):
                yield (uri, str(action["path"])), table, action


def _uris(lake: PipelineLake) -> Iterator[str]:
    version = versions.find_current_version(lake)
    if version is not None:
        yield version.uri
    yield from (lake.batch_uri(name) for name in BATCH_TABLES)
    yield from (dimension.uri(lake.settings, lookup) for lookup in lake.pipeline.lookups.values() if lookup.is_named)
    yield from (control_uri(lake.settings, table) for table in list_row_types())
