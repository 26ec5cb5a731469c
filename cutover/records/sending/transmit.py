"""Delivery of messages to the broker, idempotent and in order, and detection of those delivered by an interrupted run.

A header of each message contains its run and record number. The log is the source of truth, not the local notes, since
a killed run may not know what the broker accepted. Headers are visible under either isolation level, and among the
records of other producers. Every acknowledgement is awaited.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from time import sleep

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from cutover.clock import Clock
from cutover.counts import count_noun
from cutover.errors import InterruptedRunError, LogError
from cutover.log import options
from cutover.log.cut import LogId
from cutover.log.kafka import LogClient
from cutover.records.sending.produced import ProducedRun
from cutover.records.sending.rows import FileRecord
from cutover.records.sending.topic import HEADER, Target, describe_rejection, make_headers
from cutover.settings import Settings


def find_delivered(client: LogClient, log: LogId, runs: Iterable[ProducedRun]) -> dict[str, set[int]]:
    """Find the record numbers of each run that are in the topic.

    Reads from the start of the earliest run to the end of the log, repeatedly until the end does not move: the last
    requests of a process that was killed a moment ago may still be in flight.

    Raises:
        LogError: No broker responds, or the topic has lost or may have lost records of a run, so that it is unknown
            what was sent.
    """
    runs_by_id = {run.run: run for run in runs}
    delivered: dict[str, set[int]] = {name: set() for name in runs_by_id}
    if not runs_by_id:
        return delivered
    earliest = client.earliest(log.topic)
    starts = _find_starts(runs_by_id.values(), earliest)
    _check_no_loss(client, log.topic, starts, earliest)
    ends = client.high_watermarks(log.topic)
    while any(starts.get(partition, 0) < end for partition, end in ends.items()):
        ranges = {partition: (starts.get(partition, 0), end) for partition, end in ends.items()}
        for message in client.messages(log.topic, ranges, "read_uncommitted"):
            name, number = _parse_header(message)
            if name in delivered:
                delivered[name].add(number)
        starts, ends = ends, client.high_watermarks(log.topic)
    return delivered


def _find_starts(runs: Iterable[ProducedRun], earliest: Mapping[int, int]) -> dict[int, int]:
    """Return the start of the earliest run in each partition; for a partition added since, its earliest offset."""
    all_runs = list(runs)
    return {p: min(run.offsets.get(str(p), first_offset) for run in all_runs) for p, first_offset in earliest.items()}


def _check_no_loss(client: LogClient, topic: str, starts: Mapping[int, int], earliest: Mapping[int, int]) -> None:
    lossy_partitions = [partition for partition, start in starts.items() if start < earliest[partition]]
    if lossy_partitions:
        partition = lossy_partitions[0]
        msg = (
            f"Topic `{topic}`, partition {partition}: expected the records of an interrupted `cutover produce` from "
            f"offset {starts[partition]:,} on, the first remaining offset is {earliest[partition]:,}."
        )
        raise LogError(msg + "\nHint: it is unknown which records were sent; `--again` sends the whole file again.")
    if "compact" in client.config(topic).get("cleanup.policy", ""):
        msg = f"Topic `{topic}`: expected cleanup.policy=delete to resume an interrupted `produce`, got compact."
        raise LogError(msg + "\nHint: records may already be compacted; `--again` sends the whole file again.")


def _parse_header(message: Message) -> tuple[str, int]:
    """Return the run and the record number; the run is empty for a message of another producer."""
    headers = message.headers() or []
    for name, value in headers if isinstance(headers, list) else headers.items():
        if name == HEADER and isinstance(value, bytes):
            run, _, number = value.partition(b":")
            return (run.decode("utf-8", "replace"), int(number)) if number.isdigit() else ("", 0)
    return "", 0


MILLIS = 1_000
FLUSH_SECONDS = 60.0
INTERRUPTED_FLUSH_SECONDS = 5.0
_ADVANCE_EVERY = 1_000  # records
_BATCH_BYTES = 1_000_000  # librdkafka's own limit
_SMALLEST_LIMIT = 1_000  # of `message.max.bytes` in librdkafka
_WAIT_SECONDS = 0.5

ProgressCallback = Callable[[int], None]


def pace_rows(rows: Iterator[FileRecord], speed: float | None, clock: Clock) -> Iterator[FileRecord | None]:
    """Delay each record until its log time relative to the first one, replayed `speed` times faster.

    Yields:
        Each record; None at short intervals while none is due, so that the caller notices rejections meanwhile.
    """
    began, first_micros = clock.monotonic(), None
    for row in rows:
        if speed is not None and row.log_micros is not None:
            first_micros = row.log_micros if first_micros is None else first_micros
            due = began + (row.log_micros - first_micros) / 1_000_000 / speed
            while (wait := due - clock.monotonic()) > 0:
                sleep(min(wait, _WAIT_SECONDS))
                yield None
        yield row


def send_records(
    settings: Settings,
    client: LogClient,
    target: Target,
    run: str,
    rows: Iterator[FileRecord | None],
    advance: ProgressCallback,
) -> None:
    """Send the records of a run, and wait until the broker has acknowledged all of them.

    Raises:
        LogError: The broker rejects a record or does not respond; a later run sends the missing records.
        InterruptedRunError: The user interrupted the run; a later run sends the missing records.
    """
    transmission = _Transmission(target)
    producer = Producer(_producer_options(settings, client, target))
    partitions = client.partitions(target.log.topic)
    try:
        number = 0
        for row in rows:
            if row is None:
                producer.poll(0)
            transmission.check(producer)
            if row is None:
                continue
            number += 1
            # Round robin, ignoring the key: a replay reads each partition in proportion to its size, so the event times
            # of partitions by key would drift apart by days, and records would be classified differently than live.
            transmission.produce(producer, row, partitions[number % len(partitions)], run)
            if number % _ADVANCE_EVERY == 0:
                advance(_ADVANCE_EVERY)
        remaining = producer.flush(FLUSH_SECONDS)
    except KafkaException as error:
        raise transmission.make_error(error.args[0].str()) from error
    except KeyboardInterrupt:
        raise transmission.make_interruption(producer.flush(INTERRUPTED_FLUSH_SECONDS)) from None
    transmission.check(producer)
    if remaining:
        detail = f"{remaining:,} not acknowledged after {FLUSH_SECONDS:g} s"
        raise transmission.make_error(detail)


class _Transmission:
    """Delivery state of the messages sent so far."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._topic = target.log.topic
        self._acknowledged = 0
        self._rejected: list[tuple[FileRecord, KafkaError]] = []

    def produce(self, producer: Producer, row: FileRecord, partition: int, run: str) -> None:
        """Pass one record to the client, waiting while its buffer is full."""
        timestamp = 0 if row.log_micros is None else row.log_micros // MILLIS  # 0: the current time
        while True:
            try:
                producer.produce(
                    self._topic,
                    value=row.value,
                    key=row.key,
                    on_delivery=partial(self._note_delivery, row),
                    partition=partition,
                    timestamp=timestamp,
                    headers=make_headers(run, row.number),
                )
            except BufferError:
                producer.poll(0.1)
            else:
                producer.poll(0)
                return

    def check(self, producer: Producer) -> None:
        """Check that no record was rejected; otherwise cancel all messages that are not on their way yet.

        Raises:
            LogError: A record was rejected; the message contains the line of the first one.
        """
        if not self._rejected:
            return
        producer.purge(in_flight=False)
        producer.flush(INTERRUPTED_FLUSH_SECONDS)
        # The broker rejects a batch for one of its records; the client marks the others.
        row, error = min(self._rejected, key=lambda item: item[1].code() == KafkaError._INVALID_DIFFERENT_RECORD)  # noqa: SLF001 -- its only name
        other_records = f"; {len(self._rejected) - 1:,} others were rejected" if len(self._rejected) > 1 else ""
        detail = f"{describe_rejection(self._target, row, error)}{other_records}"
        raise self.make_error(detail)

    def make_error(self, detail: str) -> LogError:
        """Return the error that not all records were accepted, with the number of acknowledged records and a hint."""
        msg = f"Topic `{self._topic}`: expected every record to be accepted, got: {detail}."
        acknowledged = f"{count_noun(self._acknowledged, 'record')} of this run acknowledged"
        return LogError(f"{msg}\nHint: {acknowledged}; the same command without `--again` sends only what is missing.")

    def make_interruption(self, unanswered: int) -> InterruptedRunError:
        """Return the error of an interrupted run, with the number of records sent and how to send the others."""
        count = f"at least {self._acknowledged:,}" if unanswered else f"{self._acknowledged:,}"
        return InterruptedRunError(
            f"Interrupted: {count} records of this run were sent to topic `{self._topic}`; the same command without "
            "`--again` sends the others."
        )

    def _note_delivery(self, row: FileRecord, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self._acknowledged += 1
        elif error.code() != KafkaError._PURGE_QUEUE:  # noqa: SLF001 -- the only name of this code
            self._rejected.append((row, error))


def _producer_options(settings: Settings, client: LogClient, target: Target) -> dict[str, str | int | float | bool]:
    return {
        **options.make_librdkafka_options(settings.kafka, client.bootstrap),
        "enable.idempotence": True,
        "acks": "all",
        "linger.ms": 20,
        "compression.type": "lz4",
        "message.max.bytes": max(target.max_bytes, _SMALLEST_LIMIT),
        "batch.size": min(_BATCH_BYTES, target.max_bytes),
        "queue.buffering.max.kbytes": 65_536,
        "message.timeout.ms": int(FLUSH_SECONDS * MILLIS),
        "log_level": 0,
    }
