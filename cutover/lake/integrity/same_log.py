"""Whether a log still is the one that epochs were read from: their marks are compared with what it holds now.

The newest marks of each partition tell: a log grows at its end alone, so where its last known records are the same,
all before them are. Where they differ, the marks of earlier epochs are searched for the last ones that agree; behind
them the first record that a later leader took is the first that differs, as far as the broker tells leaders apart.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from cutover.errors import LogError
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.log.kafka import LogClient
from cutover.log.mark import Mark, Marks
from cutover.log.marks import MarkReader
from cutover.log.topic_partitions import format_partition
from cutover.timestamps import from_micros

History = Callable[[], Sequence[EpochRecord]]
"""Gives the records of all epochs, by number; asked where something differs."""


class LogRead(Protocol):
    """What a reader read of a log."""

    @property
    def topic(self) -> str: ...  # noqa: D102 -- the log's name
    @property
    def isolation(self) -> str: ...  # noqa: D102 -- by which it was read
    @property
    def marks(self) -> Marks: ...  # noqa: D102 -- of the last records


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenPartition:
    """One partition that no longer holds what was read from it."""

    topic: str
    partition: int
    first: int  # offset from which on the log is another one, or has ended
    end: int  # offset, exclusive: how far the newest epoch had read
    epoch: int  # the first one known to have read what is not there
    expected: Mark  # the first record that is known to differ
    found: Mark | None  # what its offset holds now; None: nothing

    @property
    def text(self) -> str:
        """Return what was expected and what is there."""
        got = "no record" if self.found is None else _format_mark(self.found)
        return (
            f"expected at offset {self.expected.offset} the record that epoch {self.epoch} read "
            f"({_format_mark(self.expected)}), got {got}; "
            f"offsets {self.first} to {self.end - 1} are gone or hold others"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """A mark of one partition and the epoch that made it."""

    mark: Mark
    record: EpochRecord


class _Log:
    """The log as it is: what it holds of some marks."""

    def __init__(self, client: LogClient, read: LogRead) -> None:
        self.topic, self._client = read.topic, client
        self.reader = MarkReader(client, read.topic, read.isolation)
        self.ends = client.latest(read.topic, read.isolation)

    def earliest(self, partition: int) -> int:
        """Return the first offset that a partition holds now."""
        return self._client.earliest(self.topic).get(partition, 0)

    def leader(self, partition: int) -> int:
        """Ask the broker for the leader epoch, which grows with every election."""
        return self._client.log_ends(self.topic)[partition].leader_epoch

    def read_marks(self, partition: int, marks: Sequence[Mark]) -> dict[int, Mark]:
        """Return what the log holds from the first to the last one of some marks, by offset."""
        return self._read_held_marks({partition: marks})[partition]

    def agrees(self, partition: int, marks: Sequence[Mark]) -> bool:
        """Return whether the log holds no other record at some marks, as far as retention has left them."""
        return not self.differing({partition: marks})

    def differing(self, marks: Mapping[int, Sequence[Mark]]) -> list[int]:
        """Return the partitions that end before a mark, or hold another record at its offset.

        An offset before the end without any record was removed, as compaction does it: that is no other log, and
        `lost_records` finds it.
        """
        wrong = dict[int, Mark]()
        for partition, held in self._read_held_marks(marks).items():
            end = self.ends.get(partition, 0)
            known = [mark for mark in marks[partition] if mark.offset in held or mark.offset >= end]
            found = [mark for mark in known if held.get(mark.offset) != mark]
            wrong |= {partition: found[-1]} if found else {}
        # Retention works while we read: the log's start is asked for behind it.
        return sorted(p for p, mark in wrong.items() if mark.offset >= self.earliest(p))

    def _read_held_marks(self, marks: Mapping[int, Sequence[Mark]]) -> dict[int, dict[int, Mark]]:
        spans = {p: (some[0].offset, min(some[-1].offset + 1, self.ends.get(p, 0))) for p, some in marks.items()}
        found = self.reader.inside(spans)
        # A range that begins before the log yields nothing at all: what is left of it is read.
        begun = {p: self.earliest(p) for p, held in found.items() if not held}
        left = {p: (first, spans[p][1]) for p, first in begun.items() if spans[p][0] < first < spans[p][1]}
        found |= self.reader.inside(left) if left else {}
        return {p: {mark.offset: mark for mark in held} for p, held in found.items()}


def recorded_history(uri: str) -> History:
    """Return what gives the records of an epoch log, as it is when they are asked for."""
    return lambda: EpochLog(uri).records()


def refuse_changed(name: str, client: LogClient, newest: EpochRecord, history: History) -> None:
    """Refuse a log that holds other records than those that were read from it.

    Args:
        name: Of the pipeline, for the message.
        client: Asks the log, which has the topic id that the record names.
        newest: The newest epoch's record.
        history: Those of all epochs.

    Raises:
        LogError: It does; names each partition and the first offset that differs. Or no broker answers.
    """
    found = changes(client, newest, history)
    if not found:
        return
    msg = ". ".join(f"T{format_partition(change.topic, change.partition)[1:]}: {change.text}" for change in found)
    msg += (
        ".\nHint: the log was put back from a copy, cut by a leader that lagged behind, or written again under its "
        f"topic id; nothing was written since. `cutover accept-loss {name}` shows what is touched, and how to go on."
    )
    raise LogError(msg, runbook="LogDataLost")


def changes(client: LogClient, newest: EpochRecord, history: History) -> tuple[RewrittenPartition, ...]:
    """Return the partitions that hold other records than those that the epochs read; what retention took is no change.

    Raises:
        LogError: No broker answers.
    """
    with _open_log(client, newest) as log:
        differing = log.differing(newest.marks)
        records = (*history(), newest) if differing else ()
        return tuple(change for p in differing if (change := _search_change(log, p, records)) is not None)


def holds(client: LogClient, read: LogRead) -> bool:
    """Return whether the log still holds the records that a reader read last, as far as retention has left them.

    Raises:
        LogError: No broker answers.
    """
    with _open_log(client, read) as log:
        return not log.differing(read.marks)


@contextmanager
def _open_log(client: LogClient, read: LogRead) -> Iterator[_Log]:
    log = _Log(client, read)
    try:
        yield log
    finally:
        log.reader.close()


def _search_change(log: _Log, partition: int, records: Sequence[EpochRecord]) -> RewrittenPartition | None:
    """Return where a partition begins to differ; None if what differed has left the log meanwhile."""
    earliest = log.earliest(partition)
    known = [one for one in _list_known_marks(partition, records) if one.mark.offset >= earliest]
    low, high = 0, len(known)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if log.agrees(partition, [known[middle].mark]) else (low, middle)
    if low == len(known):
        return None
    wrong, after = known[low], earliest if low == 0 else known[low - 1].mark.offset + 1
    return RewrittenPartition(
        topic=log.topic,
        partition=partition,
        first=_first(log, partition, after, wrong),
        end=records[-1].end[partition],
        epoch=wrong.record.epoch,
        expected=wrong.mark,
        found=log.read_marks(partition, [wrong.mark]).get(wrong.mark.offset),
    )


def _first(log: _Log, partition: int, after: int, wrong: _Known) -> int:
    """Return the first offset that is another one: the first that a later leader took than any whom the epoch knew.

    Where the broker does not tell leaders apart it is the one behind the last record that is known to agree.
    """
    known, end = wrong.record.leaders.get(partition), log.ends.get(partition, 0)
    if known is None or log.leader(partition) <= known:
        return after
    for _, message in log.reader.messages({partition: (after, min(wrong.mark.offset + 1, end))}):
        if (message.leader_epoch() or 0) > known:
            return int(message.offset() or 0)
    return end if after <= end <= wrong.mark.offset else after


def _list_known_marks(partition: int, records: Sequence[EpochRecord]) -> list[_Known]:
    """Return the marks of a partition by offset, each with the epoch that made it."""
    found: dict[int, _Known] = {}
    for record in records:
        for mark in record.marks.get(partition, ()):
            found.setdefault(mark.offset, _Known(mark=mark, record=record))
    return [found[offset] for offset in sorted(found)]


def _format_mark(mark: Mark) -> str:
    moment = from_micros(mark.log_time * 1000).isoformat(timespec="milliseconds")
    return f"log time {moment.replace('+00:00', 'Z')}, checksum {mark.digest}"
