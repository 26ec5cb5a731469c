"""Notes on what was sent into which topic: a file is known by its records, not by its bytes or its name.

Next to the notes of a topic lies a file for each file that was sent into it: a hash of its header and of each of its
records. So a file that grew, was packed or was renamed is recognized, and the line from which a copy differs is known.
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
"""Share of its records, above which a file that differs is an edited copy of one that was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducedRun:
    """One run of `cutover produce`."""

    sha256: str  # of the file's bytes as they were
    file: str  # its name, for people
    start: int | None  # log time, microseconds; None: from the first record
    end: int | None  # exclusive; None: to the last record
    records: int  # that it was to send
    at: str  # ISO 8601
    finished: bool  # False: interrupted; the log knows how much of it
    run: str = ""  # in the header of its messages; empty in notes of earlier versions
    content: str = ""  # names the file of hashes
    read: int = 0  # records that the file held
    again: bool = False  # sent though it was there before
    offsets: Mapping[str, int] = field(default_factory=dict)  # end of each partition before it began

    @property
    def log_times(self) -> LogTimeRange:
        """Part of the file that it sent."""
        return LogTimeRange(start=self.start, end=self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDifference:
    """File that was sent, and where the present one differs from it."""

    run: ProducedRun
    record: int  # number of the first record that differs, from 0; -1: the header
    common: int  # records that both hold; one that a file holds several times counts as often as it is in both
    is_edited_copy: bool  # most of its records, or of the present file's, are in both


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What is known of a file in one topic."""

    runs: tuple[ProducedRun, ...]  # that sent this very file, or as much of it as there was; oldest first
    content: str | None  # under which its hashes are kept
    difference: FileDifference | None  # from another file that holds some of its records


NO_HISTORY = History(runs=(), content=None, difference=None)


@contextmanager
def lock_sending(home: Path, topic: str, content: FileContent) -> Iterator[None]:
    """Keep others of this installation from sending the same file to the same topic at the same time.

    Raises:
        DefinitionError: Another process sends it.
    """
    beginning = hashlib.blake2b(content.hashes[: 2 * HASH_BYTES], digest_size=HASH_BYTES).hexdigest()
    path = files.private_folder(home / "produced") / f"{topic}.{beginning}.lock"
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
        """Read what was sent before, oldest first; empty where nothing was.

        Raises:
            DefinitionError: The file is damaged.
        """
        if not self._path.exists():
            return []
        try:
            return [ProducedRun(**entry) for entry in json.loads(self._path.read_text(encoding="utf-8"))]
        except (ValueError, TypeError) as error:
            msg = f"{self._path}: expected the notes of `cutover produce`, got: {error}.\nHint: delete it to forget."
            raise DefinitionError(msg) from error

    def find_history(self, content: FileContent, sha256: str) -> History:
        """Compare a file with all that were sent.

        Args:
            content: Hashes of its header and all of its records.
            sha256: Of its bytes, for notes without hashes.
        """
        runs = self.list_runs()
        matching, difference = set[str](), None
        for name in dict.fromkeys(run.content for run in runs if run.content):
            hashes = self._read_hashes(name)
            shared = _count_common_prefix(hashes, content.hashes)
            if 1 < shared == min(len(hashes), len(content.hashes)) // HASH_BYTES:  # the header alone says nothing
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
        """Write down a run that begins, before its first record is sent; on the disk when this returns."""
        path = self._hashes_path(run.content)
        if not path.exists() or path.stat().st_size < len(content.hashes):
            files.write_bytes(path, bytes(content.hashes))
        with self._lock():
            self._write([*(other for other in self.list_runs() if other.run != run.run), run])

    def record_finished(self, finished: set[str]) -> None:
        """Write down that all records of some runs are in the topic."""
        with self._lock():
            runs = self.list_runs()
            self._write([_finish(run) if run.run in finished else run for run in runs])

    @contextmanager
    def _lock(self) -> Iterator[None]:
        files.private_folder(self._path.parent)
        with self._path.with_suffix(".lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _write(self, runs: list[ProducedRun]) -> None:
        text = json.dumps([asdict(run) for run in runs], indent=2, sort_keys=True) + "\n"
        files.write(self._path, text, durable=True)

    def _hashes_path(self, content: str) -> Path:
        return self._path.with_suffix(f".{content}.records")

    def _read_hashes(self, content: str) -> bytes:
        path = self._hashes_path(content)
        return path.read_bytes() if path.exists() else b""


def file_sha256(path: Path) -> str:
    """64 hex digits over the bytes, still compressed where the file is."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _finish(run: ProducedRun) -> ProducedRun:
    return ProducedRun(**{**asdict(run), "finished": True})


def _count_common_prefix(sent: bytes, present: bytes | bytearray) -> int:
    """Return how many hashes at the beginning are equal."""
    low, high = 0, min(len(sent), len(present)) // HASH_BYTES
    while low < high:
        middle = (low + high + 1) // 2
        end = middle * HASH_BYTES
        if sent[low * HASH_BYTES : end] == present[low * HASH_BYTES : end]:
            low = middle
        else:
            high = middle - 1
    return low


def _compare_records(
    run: ProducedRun, sent: bytes, present: bytes | bytearray, common_prefix: int
) -> FileDifference | None:
    """Return how two files that differ overlap; None if they have no record in common."""
    common = _count_common(present, sent)
    if not common:
        return None
    present_count, sent_count = (len(hashes) // HASH_BYTES - 1 for hashes in (present, sent))
    return FileDifference(
        run=run,
        record=common_prefix - 1,
        common=common,
        is_edited_copy=common > EDITED_COPY_SHARE * min(present_count, sent_count),
    )


def _count_common(hashes: bytes | bytearray, other: bytes | bytearray) -> int:
    """Return how many records two files share, each as often as it is in both; the headers do not count."""
    (values, counts), (other_values, other_counts) = (
        np.unique(np.frombuffer(hashes, dtype=np.uint64, offset=HASH_BYTES), return_counts=True)
        for hashes in (hashes, other)
    )
    _, places, other_places = np.intersect1d(values, other_values, assume_unique=True, return_indices=True)
    return int(np.minimum(counts[places], other_counts[other_places]).sum())
