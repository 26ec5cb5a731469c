"""Small files that others read while we write: whole or not at all, and for their owner alone unless said otherwise."""

import json
import os
import re
import tempfile
from pathlib import Path

from cutover import process
from cutover.errors import CutoverError

_TEMPORARY = re.compile(r"\..+\.([0-9]+)\.[^.]+\.tmp")  # of which process


def make_private_folder(path: Path) -> Path:
    """Return the folder, made (with its parents) for its owner alone if it was not there."""
    for missing in reversed([p for p in (path, *path.parents) if not p.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    return path


def write(path: Path, text: str, *, mode: int = 0o600, durable: bool = False) -> None:
    """Put a file in place in one step: its readers see the old text or the new one.

    Args:
        path: Target; the folder is created if needed, for its owner only.
        text: As it is to stand there, in UTF-8.
        mode: Of the file.
        durable: Whether it must be on the disk before it replaces the old one.
    """
    write_bytes(path, text.encode("utf-8"), mode=mode, durable=durable)


def write_bytes(path: Path, content: bytes, *, mode: int = 0o600, durable: bool = False) -> None:
    """Put bytes in place in one step, as `write` does a text."""
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
    """Remove what `write` left in a folder when its process was killed."""
    for temporary in folder.glob(".*.tmp"):
        match = _TEMPORARY.fullmatch(temporary.name)
        if match is not None and process.identify(int(match[1])) is None:
            temporary.unlink(missing_ok=True)


def write_json(path: Path, value: object) -> None:
    """Put a JSON file in place in one step."""
    write(path, json.dumps(value, indent=2, sort_keys=True) + "\n")


def read_json(path: Path) -> dict[str, object] | None:
    """Return the object in a JSON file; None when the file is not there.

    Raises:
        CutoverError: The file holds something else.
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
