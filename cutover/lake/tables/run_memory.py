"""Memory of one run: tables that were read and files that were checked are not read again while they are unchanged."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

CheckedFile = tuple[str, int, int]  # path, bytes, nanoseconds of the last change
FolderState = frozenset[tuple[str, int, int, int, int]]
"""Path, inode, bytes, nanoseconds of the last change and of the inode's."""


@dataclass(frozen=True, slots=True)
class _Memory:
    checked: set[CheckedFile] = field(default_factory=set)
    values: dict[tuple[str, str], tuple[FolderState, Any]] = field(default_factory=dict)


_memory: ContextVar[_Memory | None] = ContextVar("run_memory", default=None)


@contextmanager
def read_once() -> Iterator[None]:
    """Read and check each file once inside; a file that changed meanwhile is read and checked again."""
    if _memory.get() is not None:
        yield
        return
    token = _memory.set(_Memory())
    try:
        yield
    finally:
        _memory.reset(token)


def checked_files() -> set[CheckedFile] | None:
    """Return the files whose checksum was verified; None outside `read_once`."""
    memory = _memory.get()
    return None if memory is None else memory.checked


def remember(folder: str, name: str, read: Callable[[], T]) -> T:
    """Return the value that `read` returned for a folder, from memory while no file of the folder has changed.

    Outside `read_once`, for a folder without files, and for one in an object store, `read` is called each time.

    Args:
        folder: All that `read` depends on, once there are files in it.
        name: Distinguishes values that are read from one folder.
        read: Returns a value that is not modified afterwards.
    """
    memory = _memory.get()
    if memory is None or "://" in folder:
        return read()
    state = _read_state(folder)  # before the value: a file that changes meanwhile is read again
    entry = memory.values.get((folder, name))
    if entry is not None and entry[0] == state:
        remembered: T = entry[1]
        return remembered
    value = read()
    if state:
        memory.values[folder, name] = (state, value)
    return value


def _read_state(folder: str) -> FolderState:
    """Return the state of every file of a folder, also behind links; empty if one was deleted meanwhile."""
    states = set()
    try:
        for place, _, names in os.walk(folder, onerror=_raise, followlinks=True):
            for file in (Path(place, name) for name in names):
                stat = file.stat()
                states.add((str(file), stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns))
    except OSError:
        return frozenset()
    return frozenset(states)


def _raise(error: OSError) -> None:
    raise error
