"""Contents of the files of a table, by the checksum of their bytes, and files that change while they are read.

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
    """State of one file when a comparison started."""

    path: str
    state: tuple[int, int, int]  # bytes, time of change, inode
    content: str  # checksum of its bytes and its partition values; empty: not computed


def read_contents(source: SideSource, *, checked: bool) -> tuple[DataFile, ...]:
    """Return the files of a side.

    Args:
        source: Of a table on this machine; any other has none.
        checked: Whether their bytes are read. A file that Cutover wrote was checked against its name when it was bound.

    Raises:
        LakeError: A file is not there, or cannot be read.
    """
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        return tuple(pool.map(lambda path: _read(source, path, checked=checked), source.paths))


def _read(source: SideSource, path: str, *, checked: bool) -> DataFile:
    state = _read_state(path)
    name = checksums.parse_name(source.paths[path])
    if not checked:
        return DataFile(path=path, state=state, content="")
    try:
        content = checksums.hash_file(fs.LocalFileSystem(), path) if name is None else name.checksum
    except OSError as error:
        msg = f"File `{path}` cannot be read: {str(error).splitlines()[0]}."
        raise LakeError(msg, runbook="TableUnreadable") from error
    partition_values = source.partition_values.get(path)  # two folders may hold the same bytes, and not the same rows
    if partition_values is not None:
        content = sha256(f"{content} {partition_values}".encode()).hexdigest()[: len(content)]
    return DataFile(path=path, state=state, content=content)


def reject_changed_files(files: Sequence[DataFile]) -> None:
    """Refuse a comparison whose files are not as they were when it began.

    Raises:
        LakeError: Names the first one.
    """
    changed_path = next((file.path for file in files if _read_state(file.path) != file.state), None)
    if changed_path is not None:
        msg = f"File `{changed_path}`: expected it to stay as it is while it is compared, it was written to."
        raise LakeError(msg + "\nHint: compare again when its writer is done.", runbook="TableUnreadable")


def _read_state(path: str) -> tuple[int, int, int]:
    try:
        status = Path(path).stat()
    except OSError as error:
        msg = f"File `{path}` is not there any more ({error.strerror})."
        hint = "\nHint: it was replaced or vacuumed while it was compared; compare again."
        raise LakeError(msg + hint, runbook="TableUnreadable") from None
    return status.st_size, status.st_mtime_ns, status.st_ino
