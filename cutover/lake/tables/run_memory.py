"""What one run has read or checked, so that it reads nothing twice while the files stay as they are."""

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
    """Return the files whose bytes were found to be those that were committed; None outside `read_once`."""
    memory = _memory.get()
    return None if memory is None else memory.checked


def remember(folder: str, name: str, read: Callable[[], T]) -> T:
    """Return what `read` returned for a folder as it is now: of what it read before while no file of it has changed.

    Outside `read_once`, of a folder without files, and of one in an object store, it reads each time.

    Args:
        folder: All that `read` depends on, once there are files in it.
        name: Tells apart what is read of one folder.
        read: Returns what nobody changes afterwards.
    """
    memory = _memory.get()
    if memory is None or "://" in folder:
        return read()
    state = _read_state(folder)  # before it is read: what changes meanwhile is read again
    held = memory.values.get((folder, name))
    if held is not None and held[0] == state:
        known: T = held[1]
        return known
    value = read()
    if state:
        memory.values[folder, name] = (state, value)
    return value


def _read_state(folder: str) -> FolderState:
    """Return every file of a folder as it is, those behind links too; none where one went while they were looked at."""
    found = set()
    try:
        for place, _, names in os.walk(folder, onerror=_refuse, followlinks=True):
            for file in (Path(place, name) for name in names):
                one = file.stat()
                found.add((str(file), one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns))
    except OSError:
        return frozenset()
    return frozenset(found)


def _refuse(error: OSError) -> None:
    raise error
