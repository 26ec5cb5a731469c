"""What one run has read or checked, so that it reads nothing twice while the files stay as they are."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

Stamp = tuple[str, int, int]  # path, bytes, nanoseconds of the last change


@dataclass(frozen=True, slots=True)
class _Memory:
    checked: set[Stamp] = field(default_factory=set)
    values: dict[tuple[str, ...], tuple[frozenset[Stamp], Any]] = field(default_factory=dict)


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


def checked_files() -> set[Stamp] | None:
    """Return the files whose bytes were found to be those that were committed; None outside `read_once`."""
    memory = _memory.get()
    return None if memory is None else memory.checked


def remember(folder: str, name: str, read: Callable[[], T]) -> T:
    """Return what `read` returned for a folder as it is now: of what it read before while no file of it has changed.

    Outside `read_once`, and of a folder in an object store, it reads each time.

    Args:
        folder: All that `read` depends on.
        name: Tells apart what is read of one folder.
        read: Returns what nobody changes afterwards.
    """
    memory = _memory.get()
    if memory is None or "://" in folder:
        return read()
    stamps = _list_stamps(folder)  # before it is read: what changes meanwhile is read again
    held = memory.values.get((folder, name))
    if held is not None and held[0] == stamps:
        known: T = held[1]
        return known
    value = read()
    if stamps is not None:
        memory.values[folder, name] = (stamps, value)
    return value


def _list_stamps(folder: str) -> frozenset[Stamp] | None:
    """Return every file of a folder as it is; None where one went while they were looked at."""
    found = set()
    for place, _, names in os.walk(folder):
        for file in (Path(place, name) for name in names):
            try:
                state = file.stat()
            except OSError:
                return None
            found.add((str(file), state.st_size, state.st_mtime_ns))
    return frozenset(found)
