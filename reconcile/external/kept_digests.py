"""Digests of earlier comparisons, stored by the bytes of each file and the rules that they depend on.

A stored digest belongs to bytes, not to a name, a size or a time: a file that was put in place of another, or in which
one bit flipped, has no stored digest, and its rows are read. Files that change during the comparison are detected.

The store is Parquet files under `<home>/digests`, a few for each request, each name ending with the checksum of the
file's own bytes, as the lake's files have it. Columns: `_side` (0 expected, 1 actual; 2: whole groups of either side),
`_content` (checksum of a data file), `_group`, `_bucket`, `n`, `x`, `s_high` and `s_low` (`s` in two halves: Parquet
has no whole number of its size), `doubled` (keys with more than one row, if such a digest is that of a whole group). A
file that does not hold what was written is named in a note and never read.
"""

# ruff: noqa: S608 -- every name in a query is ours
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import duckdb
from pyarrow import fs

from cutover.errors import LakeError
from cutover.files import make_private_folder
from cutover.lake.tables import checksums
from cutover.quoting import literal
from cutover.reconcile.comparison.column_types import is_time, kind_of
from cutover.sources.binding import BoundTable

MOST_PARTS = 12
"""Files of one request; a run that would make one more writes all that it used into one."""

_COLUMNS = f"_side, _content, _group, _bucket, n, x, s_high::HUGEINT * {1 << 64}::HUGEINT + s_low AS s, doubled"
_FORMAT = 2  # of these files
MOST_FILES = 400
MOST_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestStore:
    """Folder that keeps the digests of one request."""

    folder: Path | None  # None: nothing is kept
    request: str  # 32 hex digits: the two tables, and all that digests depend on but for the rows
    group_type: str  # of the column that digests are grouped by, or of buckets

    @property
    def keeps(self) -> bool:
        """Return whether anything is kept: Parquet must hold groups as they are."""
        kind = self.group_type
        exact = kind in {"VARCHAR", "BOOLEAN"} or is_time(kind) or kind_of(kind) == "whole"
        return exact and kind != "HUGEINT" and self.folder is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptDigests:
    """Files of digests that earlier comparisons wrote."""

    files: tuple[Path, ...] = ()  # whole ones, of one number of buckets
    stale: tuple[Path, ...] = ()  # others of the request, of no use
    buckets: int | None = None  # of keys in each group; None: nothing is known
    note: str | None = None  # on what was not believed

    @property
    def select_files(self) -> str:
        """Return a query in parentheses of what is kept of data files, the digests of each from one digest file."""
        if len(self.files) == 1:
            return f"(SELECT {_COLUMNS} FROM {self._rows} WHERE _side < 2)"
        newest = f"SELECT _side, _content, max(_part) AS _part FROM {self._rows} WHERE _side < 2 GROUP BY ALL"
        same_part = "k._side = p._side AND k._content = p._content AND k._part = p._part"
        return f"(SELECT {_COLUMNS} FROM {self._rows} k SEMI JOIN ({newest}) p ON {same_part})"

    @property
    def select_groups(self) -> str:
        """Return a query in parentheses of what is kept of whole groups."""
        return f"(SELECT {_COLUMNS} FROM {self._rows} WHERE _side = 2)"

    @property
    def _rows(self) -> str:
        return f"read_parquet([{', '.join(literal(str(path)) for path in self.files)}], filename = '_part')"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """State of one file when a comparison started."""

    path: str
    state: tuple[int, int, int]  # bytes, time of change, inode
    content: str  # checksum of its bytes and its partition values; empty: not computed


def request_of(*parts: object) -> str:
    """Return a name of 32 hex digits for all that digests depend on but for the rows."""
    return sha256(repr((_FORMAT, *parts)).encode()).hexdigest()[:32]


def split_sql(s: str) -> str:
    """Return SQL of the two columns in which `s` is kept; a DECIMAL of its size takes four times as long to read."""
    return f"({s} >> 64)::UBIGINT AS s_high, ({s} & {(1 << 64) - 1}::HUGEINT)::UBIGINT AS s_low"


def find_kept(store: DigestStore) -> KeptDigests:
    """Return the files of a request that hold what was written; those of the newest number of buckets."""
    files = _files(store)
    damaged = [path for path in files if not _is_whole(path)]
    note = None if not damaged else _describe(damaged[0])
    intact = [path for path in files if path not in damaged]
    if not intact:
        return KeptDigests(stale=tuple(damaged), note=note)
    buckets = _buckets_of(intact[0])
    usable = tuple(path for path in intact if _buckets_of(path) == buckets)
    return KeptDigests(files=usable, stale=tuple(p for p in files if p not in usable), buckets=buckets, note=note)


def _files(store: DigestStore) -> list[Path]:
    """Return the files of a request, the newest first."""
    if store.folder is None or not store.keeps:
        return []
    return _newest_first(store.folder.glob(f"digests-{store.request}-b*.parquet"))


def _newest_first(files: Iterator[Path]) -> list[Path]:
    dated_files = []
    for file in files:
        with suppress(OSError):  # another run may have removed it
            dated_files.append((file.stat().st_mtime_ns, file.name, file))
    return [file for _, _, file in sorted(dated_files, reverse=True)]


def _is_whole(path: Path) -> bool:
    name = checksums.parse_name(path.name)
    with suppress(OSError):
        return name is not None and checksums.hash_file(fs.LocalFileSystem(), str(path)) == name.checksum
    return False


def _buckets_of(path: Path) -> int:
    return int(path.name.split("-")[2].removeprefix("b"))


def _describe(damaged_file: Path) -> str:
    text = f"Kept digests `{damaged_file.name}` are not what was written: another program or the disk changed them."
    return f"{text} They were not used."


def store_digests(
    connection: duckdb.DuckDBPyConnection, store: DigestStore, query: str, *, buckets: int, instead: Sequence[Path] = ()
) -> None:
    """Keep digests; where nothing can be written, nothing is kept.

    Args:
        connection: Where.
        store: Of the request.
        query: Rows with the columns of a file.
        buckets: Of keys in each group.
        instead: Files whose place the new one takes.
    """
    if store.folder is None or not store.keeps:
        return
    with _quiet():
        folder = make_private_folder(store.folder)
        stem = checksums.new_stem("digests", store.request, f"b{buckets}")
        under_way = folder / f".{stem}.{os.getpid()}.tmp"
        try:
            connection.execute(f"COPY ({query}) TO {literal(str(under_way))} (FORMAT parquet)")
            under_way.chmod(0o600)
            checksum = checksums.hash_file(fs.LocalFileSystem(), str(under_way))
            under_way.replace(folder / checksums.file_name(stem, checksum))
        finally:
            under_way.unlink(missing_ok=True)
        for path in instead:
            path.unlink(missing_ok=True)
        _remove_oldest(folder)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep nothing, and say nothing, where a disk is full or a folder is not ours: the result does not depend on it."""
    with suppress(OSError, duckdb.Error):
        yield


def _remove_oldest(folder: Path) -> None:
    """Remove the oldest files beyond `MOST_FILES` or `MOST_BYTES`."""
    total_bytes = 0
    for place, path in enumerate(_newest_first(folder.glob("digests-*.parquet"))):
        total_bytes += path.stat().st_size
        if place >= MOST_FILES or total_bytes > MOST_BYTES:
            path.unlink(missing_ok=True)


def read_contents(source: BoundTable, *, checked: bool) -> tuple[DataFile, ...]:
    """Return the files of a side.

    Args:
        source: Of a table on this machine; any other has none.
        checked: Whether their bytes are read. A file that Cutover wrote was checked against its name when it was bound.

    Raises:
        LakeError: A file is not there, or cannot be read.
    """
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        return tuple(pool.map(lambda path: _read(source, path, checked=checked), source.paths))


def _read(source: BoundTable, path: str, *, checked: bool) -> DataFile:
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
