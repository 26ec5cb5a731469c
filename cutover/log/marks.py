"""Reader of marks: fingerprints of the last records before an offset, by which a log is recognized.

A topic keeps its id and offsets when its files are restored from a copy, when a lagging replica becomes leader and
truncates it, or when it is written again. So an offset alone does not identify a record.
"""

import time
from collections.abc import Iterator
from contextlib import suppress

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from cutover.log import topic_partitions
from cutover.log.cut import Mark, compute_record_digest
from cutover.log.kafka import LogClient, Ranges
from cutover.log.topic_partitions import get_offset
from cutover.log.transient_errors import is_disconnect

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
