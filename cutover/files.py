"""Small files that are replaced atomically, so that readers never see a partial one; private by default."""

import json
import os
import re
import tempfile
from pathlib import Path

from cutover import process
from cutover.errors import CutoverError

_TEMPORARY = re.compile(r"\..+\.([0-9]+)\.[^.]+\.tmp")  # the group is the process id


def make_private_folder(path: Path) -> Path:
    """Create a folder and its parents with access only for the owner, unless they exist; return the folder."""
    for missing in reversed([p for p in (path, *path.parents) if not p.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    return path


def write_atomically(path: Path, text: str, *, mode: int = 0o600, durable: bool = False) -> None:
    """Replace a file atomically: readers see either the old text or the new one.

    Args:
        path: Target; the folder is created if needed, with access only for the owner.
        text: New content, encoded as UTF-8.
        mode: Permissions of the file.
        durable: Sync the new file to disk before it replaces the old one.
    """
    write_bytes(path, text.encode("utf-8"), mode=mode, durable=durable)


def write_bytes(path: Path, content: bytes, *, mode: int = 0o600, durable: bool = False) -> None:
    """Replace a file with bytes atomically, like `write_atomically`."""
    make_private_folder(path.parent)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.{os.getpid()}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            os.fchmod(handle, mode)
            stream.write(content)
            if durable:
                stream.flush()
                os.fsync(handle)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def delete_temporary_files(folder: Path) -> None:
    """Delete the temporary files of killed processes that were in `write_atomically`."""
    for temporary in folder.glob(".*.tmp"):
        match = _TEMPORARY.fullmatch(temporary.name)
        if match is not None and process.identify(int(match[1])) is None:
            temporary.unlink(missing_ok=True)


def write_json(path: Path, value: object) -> None:
    """Replace a JSON file atomically."""
    write_atomically(path, json.dumps(value, indent=2, sort_keys=True) + "\n")


def read_json_file(path: Path) -> dict[str, object] | None:
    """Read a JSON object from a file; None if the file does not exist.

    Raises:
        CutoverError: The content is not a JSON object.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        msg = f"File `{path}` cannot be read: expected a JSON object, got: {error}\nHint: remove it, then `cutover up`."
        raise CutoverError(msg) from None
    if not isinstance(value, dict):
        actual = type(value).__name__
        msg = (
            f"File `{path}` cannot be read: expected a JSON object, got {actual}.\nHint: remove it, then `cutover up`."
        )
        raise CutoverError(msg)
    return value
