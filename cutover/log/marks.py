"""Marks: what the last records before an offset were, so that a log is known again by what it holds.

A topic keeps its id and its offsets when its files are put back from a copy, when a leader that lagged behind cuts its
end off, or when it is written again: an offset alone does not say which record it names.
"""

import time
from collections.abc import Iterator
from contextlib import suppress

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from cutover.log import topic_partitions
from cutover.log.kafka import LogClient, Ranges
from cutover.log.mark import Mark, compute_digest
from cutover.log.topic_partitions import get_offset
from cutover.log.transient_errors import is_disconnect

MARKS_PER_PARTITION = 4
"""Marks of each partition."""

_GROWTH = 8  # times: where the last offsets hold no record for a reader, as behind an aborted transaction
_FETCH_BYTES = 1024  # a batch of records comes whole; more than one is not needed
_NO_RECORD = frozenset({KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET})  # noqa: SLF001 -- their only names
_POLL_SECONDS = 0.05  # seconds of one look at what has come


class MarkReader:
    """Reads marks, and compares them, through one connection that it keeps. Not for two threads at once.

    Raises:
        LogError: No broker answers.
    """

    def __init__(self, client: LogClient, topic: str, isolation: str) -> None:
        self._client, self._topic, self._isolation = client, topic, isolation
        self._kept: Consumer | None = None

    def close(self) -> None:
        """Let the connection go; the next question makes another one."""
        if self._kept is not None:
            with suppress(KafkaException):
                self._kept.close()
            self._kept = None

    def read_last(self, ranges: Ranges) -> dict[int, tuple[Mark, ...]]:
        """Return the last marks in ranges of offsets; a partition without a record for this reader is left out."""
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
        """Read ranges of offsets, and mark each record; a partition without records has none."""
        marks_by_partition: dict[int, list[Mark]] = {p: [] for p in ranges}
        for partition, message in self.read_messages(ranges):
            marks_by_partition[partition].append(make_mark(message))
        return {p: tuple(marks) for p, marks in marks_by_partition.items()}

    def read_messages(self, ranges: Ranges) -> Iterator[tuple[int, Message]]:
        """Yield what this reader gets of ranges; in order within each partition alone.

        What lies before the log's first offset or behind its last one yields nothing.
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
                # librdkafka doubles what it asks of a partition at every answer without a record, as compaction leaves
                # them, and fails in the end: a new connection begins small again.
                self.close()
        except KafkaException as error:
            raise self._client.make_unreachable_error(error) from error

    def _read_unread(self, consumer: Consumer, unread: dict[int, int]) -> Iterator[tuple[int, Message]]:
        heard = time.monotonic()
        while unread:
            message = consumer.poll(_POLL_SECONDS)
            if message is None or is_disconnect(message.error()):
                if time.monotonic() - heard > self._client.timeout:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 -- its only name
                continue
            heard, partition = time.monotonic(), topic_partitions.number_message_partition(self._topic, message)
            if self._is_record(message) and get_offset(message) < unread.get(partition, 0):
                yield partition, message
            elif unread.pop(partition, None) is not None:
                # Not paused: behind `resume` librdkafka may ask the broker for nothing during a whole second.
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
    """Mark a record."""
    return Mark(get_offset(message), int(message.timestamp()[1]), compute_digest(message.key(), message.value()))
