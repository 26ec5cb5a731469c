"""Detection of a rewritten log: the marks of the records that epochs read are compared with the log's records now.

Marks are fingerprints of the last records before an offset. A topic keeps its id and offsets when its files are
restored from a copy, when a lagging replica becomes leader and truncates it, or when it is written again. So an offset
alone does not identify a record.

The newest marks of each partition suffice: a log only grows at its end, so if its last known records are unchanged, all
earlier ones are. If they differ, the marks of earlier epochs are searched for the last ones that agree; after them, the
first record that a later leader appended is the first that differs, if the broker reports leader epochs.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from cutover.errors import LogError
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.log import topic_partitions
from cutover.log.cut import Mark, Marks, compute_record_digest
from cutover.log.kafka import LogClient, Ranges
from cutover.log.topic_partitions import format_partition, get_offset
from cutover.log.transient_errors import is_disconnect
from cutover.timestamps import from_micros

MARKS_PER_PARTITION = 4
"""Number of marks of each partition."""

_GROWTH = 8  # factor by which the range grows if the last offsets have no visible record (aborted transactions)
_FETCH_BYTES = 1024  # record batches are always complete, and one is enough
_NO_RECORD = frozenset({KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET})  # noqa: SLF001 -- their only names
_POLL_SECONDS = 0.05


class MarkReader:
    """Reader of marks that keeps one connection. Not thread-safe.

    Raises:
        LogError: No broker responds.
    """

    def __init__(self, client: LogClient, topic: str, isolation: str) -> None:
        self._client, self._topic, self._isolation = client, topic, isolation
        self._kept: Consumer | None = None

    def close(self) -> None:
        """Close the connection; the next read opens another one."""
        if self._kept is not None:
            with suppress(KafkaException):
                self._kept.close()
            self._kept = None

    def read_last(self, ranges: Ranges) -> dict[int, tuple[Mark, ...]]:
        """Read the last marks in ranges of offsets; a partition without visible records is omitted."""
        marks_by_partition: dict[int, tuple[Mark, ...]] = {}
        unread, width = {p: span for p, span in ranges.items() if span[0] < span[1]}, MARKS_PER_PARTITION
        while unread:
            read = self.read_all({p: (max(start, end - width), end) for p, (start, end) in unread.items()})
            marks_by_partition |= {p: marks[-MARKS_PER_PARTITION:] for p, marks in read.items() if marks}
            unread = {
                p: span for p, span in unread.items() if p not in marks_by_partition and span[1] - span[0] > width
            }
            width *= _GROWTH
        return marks_by_partition

    def read_all(self, ranges: Ranges) -> dict[int, tuple[Mark, ...]]:
        """Read the marks of all records in ranges of offsets; empty for a partition without records."""
        marks_by_partition: dict[int, list[Mark]] = {p: [] for p in ranges}
        for partition, message in self.read_messages(ranges):
            marks_by_partition[partition].append(make_mark(message))
        return {p: tuple(marks) for p, marks in marks_by_partition.items()}

    def read_messages(self, ranges: Ranges) -> Iterator[tuple[int, Message]]:
        """Yield the visible records of ranges, ordered within each partition only.

        Offsets before the start or after the end of the log yield nothing.
        """
        unread = {p: span[1] for p, span in ranges.items() if span[0] < span[1]}
        consumer, silent = self._consumer(), set(unread)
        try:
            consumer.assign([topic_partitions.make_topic_partition(self._topic, p, ranges[p][0]) for p in unread])
            for partition, message in self._read_unread(consumer, unread):
                silent.discard(partition)
                yield partition, message
            consumer.unassign()
            if silent:
                # librdkafka doubles the fetch size of a partition after each response without a record (after
                # compaction), and fails in the end. A new connection starts with the small size again.
                self.close()
        except KafkaException as error:
            raise self._client.make_unreachable_error(error) from error

    def _read_unread(self, consumer: Consumer, unread: dict[int, int]) -> Iterator[tuple[int, Message]]:
        last_message_at = time.monotonic()
        while unread:
            message = consumer.poll(_POLL_SECONDS)
            if message is None or is_disconnect(message.error()):
                if time.monotonic() - last_message_at > self._client.timeout:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 -- its only name
                continue
            last_message_at = time.monotonic()
            partition = topic_partitions.number_message_partition(self._topic, message)
            if self._is_record(message) and get_offset(message) < unread.get(partition, 0):
                yield partition, message
            elif unread.pop(partition, None) is not None:
                # Not paused: after `resume` librdkafka may not fetch for a whole second.
                consumer.incremental_unassign([topic_partitions.make_topic_partition(self._topic, partition)])

    @staticmethod
    def _is_record(message: Message) -> bool:
        error = message.error()
        if error is not None and error.code() not in _NO_RECORD:
            raise KafkaException(error)
        return error is None

    def _consumer(self) -> Consumer:
        if self._kept is None:
            self._kept = self._client.consumer(self._isolation, fetch_bytes=_FETCH_BYTES)
        return self._kept


def make_mark(message: Message) -> Mark:
    """Compute the mark of a record."""
    return Mark(get_offset(message), int(message.timestamp()[1]), compute_record_digest(message.key(), message.value()))


History = Callable[[], Sequence[EpochRecord]]
"""Returns the records of all epochs, by number; called only if the log differs."""


class LogRead(Protocol):
    """Position of a reader in a log, with the marks of the records that it read last."""

    @property
    def topic(self) -> str: ...  # noqa: D102 -- the log's name
    @property
    def isolation(self) -> str: ...  # noqa: D102 -- isolation level of the reader
    @property
    def marks(self) -> Marks: ...  # noqa: D102 -- marks of the last records


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenPartition:
    """Partition that no longer holds the records that were read from it."""

    topic: str
    partition: int
    first: int  # first offset at which the log differs, or has ended
    end: int  # offset, exclusive: how far the newest epoch had read
    epoch: int  # the first one known to have read a record that is missing now
    expected: Mark  # the first record that is known to differ
    actual: Mark | None  # the record at its offset now; None: no record

    @property
    def text(self) -> str:
        """Describe the expected and the actual record, and the affected offsets."""
        actual = "no record" if self.actual is None else _format_mark(self.actual)
        return (
            f"expected at offset {self.expected.offset} the record that epoch {self.epoch} read "
            f"({_format_mark(self.expected)}), got {actual}; "
            f"offsets {self.first} to {self.end - 1} are missing or hold other records"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _EpochMark:
    """Mark of one partition, and the epoch that made it."""

    mark: Mark
    record: EpochRecord


class _Log:
    """Current content of a log at the offsets of marks."""

    def __init__(self, client: LogClient, read: LogRead) -> None:
        self.topic, self._client = read.topic, client
        self.reader = MarkReader(client, read.topic, read.isolation)
        self.ends = client.latest(read.topic, read.isolation)

    def earliest(self, partition: int) -> int:
        """Return the first offset that a partition holds now."""
        return self._client.earliest(self.topic).get(partition, 0)

    def leader(self, partition: int) -> int:
        """Return the leader epoch, which increases with every election."""
        return self._client.log_ends(self.topic)[partition].leader_epoch

    def read_marks(self, partition: int, marks: Sequence[Mark]) -> dict[int, Mark]:
        """Return the marks of the log's records between the first and the last of some marks, by offset."""
        return self._read_current_marks({partition: marks})[partition]

    def agrees(self, partition: int, marks: Sequence[Mark]) -> bool:
        """Return whether the log holds no other record at the offsets of some marks that retention has left."""
        return not self.find_differing({partition: marks})

    def find_differing(self, marks: Mapping[int, Sequence[Mark]]) -> list[int]:
        """Return the partitions that end before a mark, or hold another record at its offset.

        An offset before the end without any record was removed, as by compaction: the log was not rewritten, and
        `lost_records` finds the missing records.
        """
        wrong = dict[int, Mark]()
        for partition, current in self._read_current_marks(marks).items():
            end = self.ends.get(partition, 0)
            comparable = [mark for mark in marks[partition] if mark.offset in current or mark.offset >= end]
            differing = [mark for mark in comparable if current.get(mark.offset) != mark]
            wrong |= {partition: differing[-1]} if differing else {}
        # Retention may delete records while they are read: the start of the log is read afterwards.
        return sorted(p for p, mark in wrong.items() if mark.offset >= self.earliest(p))

    def _read_current_marks(self, marks: Mapping[int, Sequence[Mark]]) -> dict[int, dict[int, Mark]]:
        ranges = {
            p: (of_partition[0].offset, min(of_partition[-1].offset + 1, self.ends.get(p, 0)))
            for p, of_partition in marks.items()
        }
        current = self.reader.read_all(ranges)
        # A range that begins before the log yields no marks: its remaining part is read.
        starts = {p: self.earliest(p) for p, of_partition in current.items() if not of_partition}
        remaining = {p: (start, ranges[p][1]) for p, start in starts.items() if ranges[p][0] < start < ranges[p][1]}
        current |= self.reader.read_all(remaining) if remaining else {}
        return {p: {mark.offset: mark for mark in of_partition} for p, of_partition in current.items()}


def recorded_history(uri: str) -> History:
    """Return a function that reads the records of an epoch log when it is called."""
    return lambda: EpochLog(uri).records()


def check_log_unchanged(name: str, client: LogClient, newest: EpochRecord, history: History) -> None:
    """Check that a log holds the records that were read from it.

    Args:
        name: Name of the pipeline, for the message.
        client: Reads the log, which has the topic id of the record.
        newest: Record of the newest epoch.
        history: Returns the records of all epochs.

    Raises:
        LogError: It holds other records; names each partition and the first offset that differs. Or no broker answers.
    """
    changes = find_rewritten_partitions(client, newest, history)
    if not changes:
        return
    msg = ". ".join(f"T{format_partition(change.topic, change.partition)[1:]}: {change.text}" for change in changes)
    msg += (
        ".\nHint: the log was restored from a copy, truncated by a leader that lagged behind, or rewritten under its "
        f"topic id; nothing was written since. `cutover accept-loss {name}` shows what is affected and how to continue."
    )
    raise LogError(msg, runbook="LogDataLost")


def find_rewritten_partitions(
    client: LogClient, newest: EpochRecord, history: History
) -> tuple[RewrittenPartition, ...]:
    """Find the partitions that hold other records than those that the epochs read; records that expired are no change.

    Raises:
        LogError: No broker answers.
    """
    with _open_log(client, newest) as log:
        differing = log.find_differing(newest.marks)
        records = (*history(), newest) if differing else ()
        return tuple(change for p in differing if (change := _search_change(log, p, records)) is not None)


def is_unchanged(client: LogClient, read: LogRead) -> bool:
    """Return whether the log holds no other records than those that a reader read last, unless they expired.

    Raises:
        LogError: No broker answers.
    """
    with _open_log(client, read) as log:
        return not log.find_differing(read.marks)


@contextmanager
def _open_log(client: LogClient, read: LogRead) -> Iterator[_Log]:
    log = _Log(client, read)
    try:
        yield log
    finally:
        log.reader.close()


def _search_change(log: _Log, partition: int, records: Sequence[EpochRecord]) -> RewrittenPartition | None:
    """Find where a partition begins to differ; None if the records that differed have expired meanwhile."""
    earliest = log.earliest(partition)
    marks = [mark for mark in _list_marks(partition, records) if mark.mark.offset >= earliest]
    low, high = 0, len(marks)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if log.agrees(partition, [marks[middle].mark]) else (low, middle)
    if low == len(marks):
        return None
    wrong, start = marks[low], earliest if low == 0 else marks[low - 1].mark.offset + 1
    return RewrittenPartition(
        topic=log.topic,
        partition=partition,
        first=_find_first_offset(log, partition, start, wrong),
        end=records[-1].end[partition],
        epoch=wrong.record.epoch,
        expected=wrong.mark,
        actual=log.read_marks(partition, [wrong.mark]).get(wrong.mark.offset),
    )


def _find_first_offset(log: _Log, partition: int, start: int, wrong: _EpochMark) -> int:
    """Return the first offset that differs: that of the first record of a leader later than the one of the epoch.

    If the broker does not report leader epochs, return the offset after the last record that is known to agree.
    """
    leader, end = wrong.record.leaders.get(partition), log.ends.get(partition, 0)
    if leader is None or log.leader(partition) <= leader:
        return start
    for _, message in log.reader.read_messages({partition: (start, min(wrong.mark.offset + 1, end))}):
        if (message.leader_epoch() or 0) > leader:
            return int(message.offset() or 0)
    return end if start <= end <= wrong.mark.offset else start


def _list_marks(partition: int, records: Sequence[EpochRecord]) -> list[_EpochMark]:
    """Return the marks of a partition by offset, each with the epoch that made it."""
    marks_by_offset: dict[int, _EpochMark] = {}
    for record in records:
        for mark in record.marks.get(partition, ()):
            marks_by_offset.setdefault(mark.offset, _EpochMark(mark=mark, record=record))
    return [marks_by_offset[offset] for offset in sorted(marks_by_offset)]


def _format_mark(mark: Mark) -> str:
    moment = from_micros(mark.log_time * 1000).isoformat(timespec="milliseconds")
    return f"log time {moment.replace('+00:00', 'Z')}, checksum {mark.digest}"
