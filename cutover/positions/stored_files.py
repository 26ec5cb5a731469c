"""Small files of tables, on this machine or in an object store: read whole, or listed with times."""

import gzip
from dataclasses import dataclass

from pyarrow import fs

from cutover.engine import storage
from cutover.errors import LakeError

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
