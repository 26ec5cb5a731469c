"""Notes on the files that were sent to a topic; a file is identified by its records, not by its bytes or name.

For each sent file there is a file of hashes next to the topic's notes: one of its header and one of each record. So a
file that grew, was compressed or renamed is recognized, and the first line at which a copy differs is known.
"""

import fcntl
import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from cutover import files
from cutover.errors import DefinitionError
from cutover.records.sending.rows import HASH_BYTES, FileContent, LogTimeRange

EDITED_COPY_SHARE = 0.5
"""Share of common records above which a different file is an edited copy of one that was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducedRun:
    """Run of `cutover produce`."""

    sha256: str  # of the bytes of the file
    file: str  # file name, for messages
    start: int | None  # log time, microseconds; None: from the first record
    end: int | None  # exclusive; None: to the last record
    records: int  # number of records to send
    at: str  # ISO 8601
    finished: bool  # False: interrupted; the log shows which records were delivered
    run: str = ""  # run id in the headers of its messages; empty in notes of earlier versions
    content: str = ""  # id of the file of hashes
    read: int = 0  # records in the file
    again: bool = False  # sent although the topic had the records before
    offsets: Mapping[str, int] = field(default_factory=dict)  # end of each partition before the run

    @property
    def log_times(self) -> LogTimeRange:
        """Time range of the records that it sent."""
        return LogTimeRange(start=self.start, end=self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDifference:
    """File that was sent, and the first difference of the present file."""

    run: ProducedRun
    record: int  # number of the first record that differs, from 0; -1: the header
    common: int  # records in both, counting repeated records as often as they are in both
    is_edited_copy: bool  # most records of either file are in both


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Earlier runs of a file into one topic."""

    runs: tuple[ProducedRun, ...]  # runs that sent this file, or a prefix of it; oldest first
    content: str | None  # id of its file of hashes
    difference: FileDifference | None  # from another file with some of its records


NO_HISTORY = History(runs=(), content=None, difference=None)


@contextmanager
def lock_sending(home: Path, topic: str, content: FileContent) -> Iterator[None]:
    """Prevent other processes of this installation from sending the same file to the same topic at the same time.

    Raises:
        DefinitionError: Another process is sending it.
    """
    beginning = hashlib.blake2b(content.hashes[: 2 * HASH_BYTES], digest_size=HASH_BYTES).hexdigest()
    path = files.make_private_folder(home / "produced") / f"{topic}.{beginning}.lock"
    with path.open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            msg = f"Topic `{topic}`: expected one `cutover produce` of a file at a time, another one is sending it."
            raise DefinitionError(msg + "\nHint: nothing was sent; wait until the other one has finished.") from None
        yield


class ProducedNotes:
    """Notes on one topic, in `<home>/produced/<topic id>.json`."""

    def __init__(self, home: Path, topic_id: str) -> None:
        safe = topic_id.replace("+", "-").replace("/", "_")  # Kafka writes ids in base 64
        self._path = home / "produced" / f"{safe}.json"

    def list_runs(self) -> list[ProducedRun]:
        """Read the runs that sent files to the topic, oldest first; empty if there are none.

        Raises:
            DefinitionError: The file is corrupt.
        """
        if not self._path.exists():
            return []
        try:
            return [ProducedRun(**entry) for entry in json.loads(self._path.read_text(encoding="utf-8"))]
        except (ValueError, TypeError) as error:
            msg = (
                f"{self._path}: expected the notes of `cutover produce`, got: {error}.\nHint: delete it to start over."
            )
            raise DefinitionError(msg) from error

    def find_history(self, content: FileContent, sha256: str) -> History:
        """Compare a file with all files that were sent.

        Args:
            content: Hashes of its header and all of its records.
            sha256: Hash of its bytes, for notes without hashes of records.
        """
        runs = self.list_runs()
        matching, difference = set[str](), None
        for name in dict.fromkeys(run.content for run in runs if run.content):
            hashes = self._read_hashes(name)
            shared = _count_common_prefix(hashes, content.hashes)
            # A common header alone does not identify a file.
            if 1 < shared == min(len(hashes), len(content.hashes)) // HASH_BYTES:
                matching.add(name)
            else:
                latest = next(run for run in reversed(runs) if run.content == name)
                difference = _compare_records(latest, hashes, content.hashes, shared) or difference
        return History(
            runs=tuple(run for run in runs if run.content in matching or (not run.content and run.sha256 == sha256)),
            content=next(iter(sorted(matching)), None),
            difference=difference,
        )

    def record_start(self, run: ProducedRun, content: FileContent) -> None:
        """Record the start of a run durably, before its first record is sent."""
        path = self._hashes_path(run.content)
        if not path.exists() or path.stat().st_size < len(content.hashes):
            files.write_bytes(path, bytes(content.hashes))
        with self._lock():
            self._write([*(other for other in self.list_runs() if other.run != run.run), run])

    def record_finished(self, finished: set[str]) -> None:
        """Record that all records of some runs are in the topic."""
        with self._lock():
            runs = self.list_runs()
            self._write([_finish(run) if run.run in finished else run for run in runs])

    @contextmanager
    def _lock(self) -> Iterator[None]:
        files.make_private_folder(self._path.parent)
        with self._path.with_suffix(".lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _write(self, runs: list[ProducedRun]) -> None:
        text = json.dumps([asdict(run) for run in runs], indent=2, sort_keys=True) + "\n"
        files.write_atomically(self._path, text, durable=True)

    def _hashes_path(self, content: str) -> Path:
        return self._path.with_suffix(f".{content}.records")

    def _read_hashes(self, content: str) -> bytes:
        path = self._hashes_path(content)
        return path.read_bytes() if path.exists() else b""


def file_sha256(path: Path) -> str:
    """Hash the bytes of a file as stored, compressed or not; 64 hex digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _finish(run: ProducedRun) -> ProducedRun:
    return ProducedRun(**{**asdict(run), "finished": True})


def _count_common_prefix(sent_hashes: bytes, present: bytes | bytearray) -> int:
    """Count the equal hashes at the beginning, by binary search."""
    low, high = 0, min(len(sent_hashes), len(present)) // HASH_BYTES
    while low < high:
        middle = (low + high + 1) // 2
        end = middle * HASH_BYTES
        if sent_hashes[low * HASH_BYTES : end] == present[low * HASH_BYTES : end]:
            low = middle
        else:
            high = middle - 1
    return low


def _compare_records(
    run: ProducedRun, sent_hashes: bytes, present: bytes | bytearray, common_prefix: int
) -> FileDifference | None:
    """Describe the overlap of two different files; None if they have no record in common."""
    common = _count_common(present, sent_hashes)
    if not common:
        return None
    present_count, sent_count = (len(hashes) // HASH_BYTES - 1 for hashes in (present, sent_hashes))
    return FileDifference(
        run=run,
        record=common_prefix - 1,
        common=common,
        is_edited_copy=common > EDITED_COPY_SHARE * min(present_count, sent_count),
    )


def _count_common(hashes: bytes | bytearray, other: bytes | bytearray) -> int:
    """Count the common records of two files, without the headers, repeated ones as often as they are in both."""
    (values, counts), (other_values, other_counts) = (
        np.unique(np.frombuffer(hashes, dtype=np.uint64, offset=HASH_BYTES), return_counts=True)
        for hashes in (hashes, other)
    )
    _, places, other_places = np.intersect1d(values, other_values, assume_unique=True, return_indices=True)
    return int(np.minimum(counts[places], other_counts[other_places]).sum())
