"""Small files that others read while we write: whole or not at all, and for their owner alone."""

import json
import os
import tempfile
from pathlib import Path

from cutover.errors import CutoverError


def private_folder(path: Path) -> Path:
    """Return the folder, made (with its parents) for its owner alone if it was not there."""
    for missing in reversed([p for p in (path, *path.parents) if not p.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    return path


def write(path: Path, text: str) -> None:
    """Put a file in place in one step, mode 0600, its folder made if needed."""
    private_folder(path.parent)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


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
        got = type(value).__name__
        msg = f"File `{path}` cannot be read: expected a JSON object, got {got}.\nHint: remove it, then `cutover up`."
        raise CutoverError(msg)
    return value
