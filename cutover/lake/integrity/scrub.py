"""The scrub: the bytes of all listed files of a pipeline are checked in pieces, whether or not anybody reads them.

Each run goes on where the one before stopped (a note under `home`), up to a number of bytes; behind the last file it
begins again.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from cutover.definition.model.pipeline import Pipeline
from cutover.files import write_json
from cutover.lake.control import versions
from cutover.lake.dimensions import dimension
from cutover.lake.journal import list_row_types
from cutover.lake.paths import BATCH_TABLES, batch_uri, control_uri
from cutover.lake.tables import checksums, delta
from cutover.settings import Settings

PIECE = 2 * 2**30  # bytes of one run

Place = tuple[str, str]  # table, path of a file in it


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrubbed:
    """What one run of the scrub has looked at."""

    files: int
    size: int  # bytes
    listed: int  # files that there are
    is_whole: bool  # whether it came to the end
    unnamed: int  # of all listed: files of others, whose names hold no checksum
    damaged: tuple[str, ...] = ()  # a message each

    def to_json(self) -> dict[str, Any]:
        """Return the shape that `cutover verify --files --json` prints."""
        return {
            "files": self.files,
            "bytes": self.size,
            "listed": self.listed,
            "is_whole": self.is_whole,
            "unnamed": self.unnamed,
            "damaged": list(self.damaged),
        }


def scrub(settings: Settings, pipeline: Pipeline, *, most: int | None = PIECE) -> Scrubbed:
    """Check the next files of a pipeline's tables.

    Args:
        settings: Where the lake lies, and the note.
        pipeline: Its current stream version, its batch tables, dimensions of the lake, and the control tables.
        most: Bytes after which it stops; None: all files are checked, from the first one on.

    Raises:
        LakeError: A table cannot be opened.
    """
    listed = sorted(_list_files(settings, pipeline), key=lambda file: file[0])
    note = settings.home.resolve() / "scrub" / f"{pipeline.name}.json"
    after = None if most is None else _read_note(note)
    left = [found for found in listed if after is None or found[0] > after]
    damaged, size, files, last = list[str](), 0, 0, None
    for place, table, action in left or listed:
        if most is not None and size >= most:
            break
        try:
            delta.check(table, [action])
        except checksums.FileDamagedError as error:
            damaged.append(error.text)
        size, files, last = size + int(action["size_bytes"]), files + 1, place
    is_whole = files == len(left or listed)
    write_json(note, None if is_whole else last)
    return Scrubbed(
        files=files,
        size=size,
        listed=len(listed),
        is_whole=is_whole,
        unnamed=sum(checksums.name_of(place[1]) is None for place, _, _ in listed),
        damaged=tuple(damaged),
    )


def _read_note(note: Path) -> Place | None:
    """Return the last file that was checked; None: begin anew."""
    try:
        uri, path = json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return None
    return str(uri), str(path)


def _list_files(settings: Settings, pipeline: Pipeline) -> Iterator[tuple[Place, DeltaTable, dict[str, Any]]]:
    for uri in _uris(settings, pipeline):
        if delta.exists(uri):
            table = delta.open_table(uri)
            for action in delta.actions(table):
                yield (uri, str(action["path"])), table, action


def _uris(settings: Settings, pipeline: Pipeline) -> Iterator[str]:
    version = versions.current(settings, pipeline)
    if version is not None:
        yield version.uri
    yield from (batch_uri(settings, pipeline, name) for name in BATCH_TABLES)
    yield from (dimension.uri(settings, lookup) for lookup in pipeline.lookups.values() if lookup.is_named)
    yield from (control_uri(settings, table) for table in list_row_types())
