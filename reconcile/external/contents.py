"""What the files of a table hold, by the checksum of their bytes; and whether they changed while they were read.

A digest that is kept belongs to bytes, not to a name, a size or a time: a file that was put in place of another, or in
which one bit flipped, has no digest that is kept, and its rows are read.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from pyarrow import fs

from cutover.errors import LakeError
from cutover.lake.tables import checksums
from cutover.reconcile.external.sources import SideSource


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One file, as it was when a comparison began."""

    path: str
    state: tuple[int, int, int]  # bytes, time of change, inode
    content: str  # checksum of its bytes and of what its rows hold beside them; empty: nobody asked


def read_contents(source: SideSource, *, checked: bool) -> tuple[DataFile, ...]:
    """Return the files of a side.

    Args:
        source: Of a table on this machine; any other has none.
        checked: Whether their bytes are read. A file of ours was checked against its name when it was bound.

    Raises:
        LakeError: A file is not there, or cannot be read.
    """
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        return tuple(pool.map(lambda path: _read(source, path, checked=checked), source.paths))


def _read(source: SideSource, path: str, *, checked: bool) -> DataFile:
    state = _state(path)
    name = checksums.name_of(source.paths[path])
    if not checked:
        return DataFile(path=path, state=state, content="")
    try:
        content = checksums.of_file(fs.LocalFileSystem(), path) if name is None else name.checksum
    except OSError as error:
        msg = f"File `{path}` cannot be read: {str(error).splitlines()[0]}."
        raise LakeError(msg, runbook="TableUnreadable") from error
    beside = source.beside.get(path)  # two folders may hold the same bytes, and not the same rows
    if beside is not None:
        content = sha256(f"{content} {beside}".encode()).hexdigest()[: len(content)]
    return DataFile(path=path, state=state, content=content)


def refuse_changed(files: Sequence[DataFile]) -> None:
    """Refuse a comparison whose files are not as they were when it began.

    Raises:
        LakeError: Names the first one.
    """
    changed = next((file.path for file in files if _state(file.path) != file.state), None)
    if changed is not None:
        msg = f"File `{changed}`: expected it to stay as it is while it is compared, it was written to."
        raise LakeError(msg + "\nHint: compare again when its writer is done.", runbook="TableUnreadable")


def _state(path: str) -> tuple[int, int, int]:
    try:
        found = Path(path).stat()
    except OSError as error:
        msg = f"File `{path}` is not there any more ({error.strerror})."
        hint = "\nHint: it was replaced or vacuumed while it was compared; compare again."
        raise LakeError(msg + hint, runbook="TableUnreadable") from None
    return found.st_size, found.st_mtime_ns, found.st_ino
