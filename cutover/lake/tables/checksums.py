"""Checksums of data files: the name of each file that we write ends with that of its bytes.

An add action's path survives checkpoints and clean-up of a table's log, a commit's own words do not. So what a file
must hold is recorded with the commit that adds it, for as long as the file is listed, and a listed file whose name has
another form was written by another writer. A name is `<stem>-<16 hex>.<32 hex>.parquet`: what the file is, a token that
no other file has, the first half of the SHA-256 of its bytes.

Each file has a weight, a number drawn from its name without the checksum; a file that took the place of others has the
sum of theirs, in its name. So the sum over all listed files stays through folds, and whoever committed last can record
what it must be before the files are written.
"""

import hashlib
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import unquote

from pyarrow import fs

from cutover.errors import LakeError
from cutover.lake.tables import run_memory

_NAME = re.compile(r"(?P<stem>[a-z]+(?:-[0-9A-Za-z_.]+)*-[0-9a-f]{16})\.(?P<sum>[0-9a-f]{32})\.parquet")
_WEIGHT = re.compile(r"-w(?P<weight>[0-9a-f]{32})-[0-9a-f]{16}")
_PIECE = 1 << 20  # bytes that are read at a time
_MODULUS = 1 << 128
APART = "data"  # stem of an epoch's rows that are committed apart from its record: nobody's record counts on them


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """What a file's name says, relative to the table's folder."""

    folder: str  # of the partition, empty without one
    stem: str
    checksum: str

    @property
    def label(self) -> str:
        """Return the first word: `epoch`, `fold`, `run`, ..."""
        return self.stem.partition("-")[0]

    @property
    def weight(self) -> int:
        """Return what the file adds to the sum of its table."""
        given = _WEIGHT.search(self.stem)
        if given:
            return int(given["weight"], 16)
        return 0 if self.label == APART else weight_of(self.folder, self.stem)


class FileDamagedError(LakeError):
    """A data file does not hold the bytes that were committed, or is not there."""

    def __init__(self, message: str, *, file: str) -> None:
        super().__init__(message, runbook="TableUnreadable")
        self.file = file  # relative to the table's folder

    def holding(self, held: str) -> "FileDamagedError":
        """Return the error that says what the file held, too; of no words itself."""
        if not held:
            return self
        named = f"file `{self.file}`"
        return FileDamagedError(self.text.replace(named, f"{named} ({held})", 1), file=self.file)


def name_of(path: str) -> Name | None:
    """Return what a listed path says; None: it is no name of ours."""
    place = PurePosixPath(unquote(path))
    found = _NAME.fullmatch(place.name)
    folder = "" if str(place.parent) == "." else str(place.parent)
    return None if found is None else Name(folder=folder, stem=found["stem"], checksum=found["sum"])


def new_stem(*words: object) -> str:
    """Return the stem of a new file: some words and a token that no other file has."""
    return "-".join([*(str(word) for word in words), secrets.token_hex(8)])


def file_name(stem: str, checksum: str) -> str:
    """`<stem>.<checksum>.parquet`; `name_of` takes it apart."""
    return f"{stem}.{checksum}.parquet"


def weight_of(folder: str, stem: str) -> int:
    """Return the weight of a file that took nobody's place."""
    return int(hashlib.sha256(f"{folder}/{stem}".encode()).hexdigest()[:32], 16)


def weight_word(weight: int) -> str:
    """Return a word of a stem that says the weight of the files whose place one took."""
    return f"w{weight % _MODULUS:032x}"


def total(paths: Iterable[str]) -> int:
    """Return the sum of the weights of listed files; files of others weigh nothing."""
    found = (name_of(path) for path in paths)
    return sum(name.weight for name in found if name is not None) % _MODULUS


def text_of(weight: int) -> str:
    """32 hex digits, as an epoch's record and a run's have them."""
    return f"{weight % _MODULUS:032x}"


def of_bytes(content: bytes | memoryview) -> str:
    """First half of the SHA-256, 32 hex digits."""
    return hashlib.sha256(content).hexdigest()[:32]


def of_file(system: fs.FileSystem, path: str) -> str:
    """Read a file in pieces: first half of its SHA-256, 32 hex digits.

    Raises:
        OSError: It cannot be read.
    """
    digest = hashlib.sha256()
    with system.open_input_stream(path) as stream:
        while piece := stream.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()[:32]


def check(system: fs.FileSystem, root: str, path: str, *, place: str) -> None:
    """Refuse a file of ours whose bytes are not those that were committed; a file of others says nothing.

    Args:
        system: Where the table lies.
        root: Its folder there.
        path: As the table's log lists it.
        place: Table and version, for the message.

    Raises:
        FileDamagedError: The file is not there, cannot be read, or holds other bytes.
    """
    name, file = name_of(path), f"{root}/{unquote(path)}"
    info = system.get_file_info(file)
    if info.type is not fs.FileType.File:
        msg = f"{place}: file `{path}` is listed and not there."
        raise FileDamagedError(msg + "\nHint: put it back from a copy of the folder.", file=path)
    seen = (file, int(info.size), int(info.mtime_ns or 0))
    checked_files = run_memory.checked_files()
    if name is None or (checked_files is not None and seen in checked_files):
        return
    try:
        got = of_file(system, file)
    except OSError as error:
        msg = f"{place}: file `{path}` cannot be read: {str(error).splitlines()[0]}."
        raise FileDamagedError(msg, file=path) from error
    if got != name.checksum:
        msg = f"{place}: file `{path}`: expected the bytes that were committed, as the checksum in its name says, got "
        msg += f"others ({info.size:,} bytes, {got})."
        hint = "\nHint: the disk, a copy or a hand changed it; put it back from a copy of the folder."
        raise FileDamagedError(msg + hint, file=path)
    if checked_files is not None:
        checked_files.add(seen)
