"""Checksums of data files: the name of each file that Cutover writes ends with the checksum of its bytes.

The path of an add action survives checkpoints and clean-up of a table's log; the metadata of a commit does not. So the
expected content of a file is recorded with the commit that adds it, for as long as the file is listed, and a listed
file whose name has another form was written by another writer. A name is `<stem>-<16 hex>.<32 hex>.parquet`: kind of
the file, a unique token, and the first half of the SHA-256 of its bytes.

Each file has a weight, a number derived from its name without the checksum; a file that replaced others has the sum of
their weights in its name. So the sum over all listed files is unchanged by folds, and the latest writer can record the
sum before the files are written.

The memory of one run keeps which files were checked and what was read of tables: neither is read again while it is
unchanged.
"""

import hashlib
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar
from urllib.parse import unquote

from pyarrow import fs

from cutover.errors import LakeError

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


_NAME = re.compile(r"(?P<stem>[a-z]+(?:-[0-9A-Za-z_.]+)*-[0-9a-f]{16})\.(?P<sum>[0-9a-f]{32})\.parquet")
_WEIGHT = re.compile(r"-w(?P<weight>[0-9a-f]{32})-[0-9a-f]{16}")
_PIECE = 1 << 20  # bytes that are read at a time
_MODULUS = 1 << 128
APART = "data"  # stem of an epoch's rows that are committed without its record: no record includes their weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """Parsed name of a data file, relative to the table's folder."""

    folder: str  # of the partition; empty without partitions
    stem: str
    checksum: str

    @property
    def label(self) -> str:
        """Return the first word: `epoch`, `fold`, `run`, ..."""
        return self.stem.partition("-")[0]

    @property
    def weight(self) -> int:
        """Return the weight of the file in the sum of its table."""
        match = _WEIGHT.search(self.stem)
        if match:
            return int(match["weight"], 16)
        return 0 if self.label == APART else compute_weight(self.folder, self.stem)


class FileDamagedError(LakeError):
    """A data file does not hold the bytes that were committed, or does not exist."""

    def __init__(self, message: str, *, file: str) -> None:
        super().__init__(message, runbook="TableUnreadable")
        self.file = file  # relative to the table's folder

    def describe_contents(self, contents: str) -> "FileDamagedError":
        """Return the error with a description of the file's committed contents; unchanged if that is empty."""
        if not contents:
            return self
        file = f"file `{self.file}`"
        return FileDamagedError(self.text.replace(file, f"{file} ({contents})", 1), file=self.file)


def parse_name(path: str) -> Name | None:
    """Parse the path of a listed file; None: another writer named it."""
    place = PurePosixPath(unquote(path))
    match = _NAME.fullmatch(place.name)
    folder = "" if str(place.parent) == "." else str(place.parent)
    return None if match is None else Name(folder=folder, stem=match["stem"], checksum=match["sum"])


def new_stem(*words: object) -> str:
    """Return the stem of a new file: some words and a unique token."""
    return "-".join([*(str(word) for word in words), secrets.token_hex(8)])


def file_name(stem: str, checksum: str) -> str:
    """Return `<stem>.<checksum>.parquet`, which `name_of` parses."""
    return f"{stem}.{checksum}.parquet"


def compute_weight(folder: str, stem: str) -> int:
    """Return the weight of a file that replaced no other files."""
    return int(hashlib.sha256(f"{folder}/{stem}".encode()).hexdigest()[:32], 16)


def weight_word(weight: int) -> str:
    """Return the word of a stem that encodes the weight of the files that it replaces."""
    return f"w{weight % _MODULUS:032x}"


def total(paths: Iterable[str]) -> int:
    """Return the sum of the weights of listed files; files of other writers have none."""
    names = (parse_name(path) for path in paths)
    return sum(name.weight for name in names if name is not None) % _MODULUS


def encode_weight(weight: int) -> str:
    """Encode a weight as 32 hex digits, for the record of an epoch or a run."""
    return f"{weight % _MODULUS:032x}"


def hash_bytes(content: bytes | memoryview) -> str:
    """Return the first half of the SHA-256, 32 hex digits."""
    return hashlib.sha256(content).hexdigest()[:32]


def hash_file(system: fs.FileSystem, path: str) -> str:
    """Read a file and return the first half of its SHA-256, 32 hex digits.

    Raises:
        OSError: The file cannot be read.
    """
    digest = hashlib.sha256()
    with system.open_input_stream(path) as stream:
        while piece := stream.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()[:32]


def check_stored_file(system: fs.FileSystem, root: str, path: str, *, place: str) -> None:
    """Check that a listed file exists and, if its name has a checksum, that it holds the bytes that were committed.

    Args:
        system: File system of the table.
        root: Folder of the table in it.
        path: Path of the file in the table's log.
        place: Table and version, for the message.

    Raises:
        FileDamagedError: The file does not exist, cannot be read, or holds other bytes.
    """
    name, file = parse_name(path), f"{root}/{unquote(path)}"
    info = system.get_file_info(file)
    if info.type is not fs.FileType.File:
        msg = f"{place}: file `{path}` is listed and not there."
        raise FileDamagedError(msg + "\nHint: restore it from a copy of the folder.", file=path)
    state = (file, int(info.size), int(info.mtime_ns or 0))
    checked = checked_files()
    if name is None or (checked is not None and state in checked):
        return
    try:
        checksum = hash_file(system, file)
    except OSError as error:
        msg = f"{place}: file `{path}` cannot be read: {str(error).splitlines()[0]}."
        raise FileDamagedError(msg, file=path) from error
    if checksum != name.checksum:
        msg = f"{place}: file `{path}`: expected the bytes that were committed, by the checksum in its name, got "
        msg += f"others ({info.size:,} bytes, {checksum})."
        hint = "\nHint: the disk, a copy or a person changed it; restore it from a copy of the folder."
        raise FileDamagedError(msg + hint, file=path)
    if checked is not None:
        checked.add(state)
