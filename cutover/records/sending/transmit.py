"""Delivery of messages to the topic of `produce`: idempotent, in order, continued where an interrupted run ended.

The topic is created with settings for old timestamps, or checked to accept every record. It limits the size of a record
batch (`max.message.bytes`), which `BATCH_BYTES` computes as of Kafka's message format 2.

A header of each message contains its run and record number. The log is the source of truth, not the local notes, since
a killed run may not know what the broker accepted. Headers are visible under either isolation level, and among the
records of other producers. Every acknowledgement is awaited.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from time import sleep
from typing import NoReturn

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from cutover.clock import Clock
from cutover.counts import count_noun
from cutover.errors import InterruptedRunError, LogError
from cutover.log import options
from cutover.log.cut import LogId
from cutover.log.kafka import LogClient
from cutover.records.sending.produced import ProducedRun
from cutover.records.sending.rows import FileRecord
from cutover.records.sending.spool import NO_KEY, Spool
from cutover.settings import Settings
from cutover.timestamps import format_micros

HEADER = "cutover-produce"
RUN_CHARACTERS = 16

_BATCH_HEADER = 61
_FIXED_FIELDS = 3 + 1  # attributes, timestamp and offset relative to the batch; count of headers
_HEADER_BYTES = 1 + len(HEADER) + 1 + RUN_CHARACTERS + 1  # lengths, name, run and colon; without the record's number


def make_headers(run: str, number: int) -> list[tuple[str, str | bytes | None]]:
    """Build the headers of a message: its run, and the number of its record in the file."""
    return [(HEADER, f"{run}:{number}".encode())]


def _count_length_bytes(length: str) -> str:
    """Return SQL that counts the bytes of a length, stored in zigzag encoding with seven bits a byte; null is -1."""
    return " + ".join(["1", *(f"CAST({length} >= {1 << bits} AS INTEGER)" for bits in (6, 13, 20, 27))])


_RECORD_BYTES = (
    f"({_FIXED_FIELDS + _HEADER_BYTES} + length(CAST(number AS VARCHAR)) + greatest(key_bytes, 0) + value_bytes"
    f" + {_count_length_bytes('key_bytes')} + {_count_length_bytes('value_bytes')})"
)
BATCH_BYTES = f"({_BATCH_HEADER} + {_RECORD_BYTES} + {_count_length_bytes(_RECORD_BYTES)})"
"""SQL over the columns of a spool: bytes of a batch with one record, which is the size without compression."""


DEFAULT_PARTITIONS = 4
CONFIG = {
    # Log timestamps come from the data: time-based retention would delete old records.
    "retention.ms": "-1",
    "message.timestamp.type": "CreateTime",
    "max.message.bytes": str(9 * 1024 * 1024),
}
_TIME_ERRORS = {KafkaError.INVALID_TIMESTAMP, KafkaError.INVALID_RECORD}
_MILLIS = 1_000
_KAFKA_LARGEST = 1_048_588  # Kafka's default
_OLDEST, _NEWEST = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
_BOTH_DIRECTIONS = "message.timestamp.difference.max.ms"  # of brokers before 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Log to write to."""

    log: LogId
    max_bytes: int  # of a batch of records
    config: Mapping[str, str] = field(default_factory=dict)  # settings of the topic


def find_topic(client: LogClient, topic: str, partitions: int | None) -> LogId | None:
    """Find the log of a topic; None if the topic does not exist.

    Raises:
        LogError: No broker responds, or the topic has another number of partitions.
    """
    if topic not in client.topics():
        return None
    existing = len(client.partitions(topic))
    if partitions is not None and partitions != existing:
        msg = f"Topic `{topic}`: expected {partitions} partitions, it has {existing}."
        raise LogError(msg + "\nHint: omit `--partitions`, or choose another topic name.")
    return client.describe(topic)


def prepare_topic(
    client: LogClient, topic: str, partitions: int | None, existing: LogId | None, spool: Spool, clock: Clock
) -> Target:
    """Return the log to write to, creating the topic if needed, after checking that it accepts every record.

    Raises:
        LogError: No broker responds, or the topic would reject a record or delete it because of its age; the message
            contains the topic's setting, its limit and the record's line. A topic created here is deleted again.
    """
    if existing is None:
        client.create_topic(topic, partitions=partitions or DEFAULT_PARTITIONS, config=CONFIG)
    config = client.config(topic)
    try:
        _check_sizes(config, topic, spool)
        _check_times(config, topic, spool, clock)
        _check_keys(config, topic, spool)
    except LogError:
        if existing is None:
            client.delete_topic(topic)
        raise
    log = client.describe(topic) if existing is None else existing
    return Target(log=log, max_bytes=_read_limit(config, "max.message.bytes") or _KAFKA_LARGEST, config=config)


def describe_rejection(target: Target, row: FileRecord, error: KafkaError) -> str:
    """Describe the rejection of a record: its line, and for its log time the topic's settings with their limits."""
    text = f"{error.str()} (line {row.line} of the file)"
    names = (_OLDEST, _NEWEST, _BOTH_DIRECTIONS)
    limits = [f"{name}={limit:,}" for name in names if (limit := _read_limit(target.config, name)) is not None]
    if error.code() not in _TIME_ERRORS or row.log_micros is None or not limits:
        return text
    return f"{text}; its log time {_show_time(row.log_micros // _MILLIS)} must be within {' and '.join(limits)}"


def _check_sizes(config: Mapping[str, str], topic: str, spool: Spool) -> None:
    limit = _read_limit(config, "max.message.bytes") or _KAFKA_LARGEST
    largest = spool.find_extreme(BATCH_BYTES)
    if largest is not None and largest[1] > limit:
        _reject(topic, f"max.message.bytes of at least {largest[1]:,}", largest[0], f"{limit:,}")


def _check_times(config: Mapping[str, str], topic: str, spool: Spool, clock: Clock) -> None:
    """Check the log times against the topic's limits, since the broker would reject or delete single records."""
    oldest, newest = spool.find_extreme("-log_micros"), spool.find_extreme("log_micros")
    if oldest is None or newest is None:
        return
    now = int(clock.now().timestamp() * _MILLIS)
    first_millis, last_millis = -oldest[1] // _MILLIS, newest[1] // _MILLIS
    if first_millis <= 0:
        expected = "a log time after 1970-01-01T00:00:00Z, since Kafka has no earlier timestamps"
        _reject(topic, expected, oldest[0], _show_time(first_millis))
    if config.get("message.timestamp.type") != "LogAppendTime":
        max_age = _read_limit(config, _OLDEST, _BOTH_DIRECTIONS)
        if max_age is not None and first_millis < now - max_age:
            _reject(topic, f"log times within {_OLDEST}={max_age:,}", oldest[0], _show_time(first_millis))
        limit = _read_limit(config, _NEWEST, _BOTH_DIRECTIONS)
        if limit is not None and last_millis > now + limit:
            _reject(topic, f"log times within {_NEWEST}={limit:,}", newest[0], _show_time(last_millis))
    retention = _read_limit(config, "retention.ms")
    is_deleted = "delete" in config.get("cleanup.policy", "delete")
    if is_deleted and retention is not None and 0 <= retention < now - first_millis:
        expected = f"retention.ms=-1 for records this old, since {retention:,} would delete them"
        _reject(topic, expected, oldest[0], _show_time(first_millis))


def _check_keys(config: Mapping[str, str], topic: str, spool: Spool) -> None:
    without = spool.find_extreme(f"CASE WHEN key_bytes = {NO_KEY} THEN 1 END")
    if without is not None and "compact" in config.get("cleanup.policy", ""):
        _reject(topic, "a key in every record, since its cleanup.policy is compact", without[0], "none")


def _read_limit(config: Mapping[str, str], *names: str) -> int | None:
    """Return the minimum of some settings; None if the broker has none of them."""
    limits = [int(value) for name in names if (value := config.get(name, "")).lstrip("-").isdecimal()]
    return min(limits, default=None)


def _show_time(millis: int) -> str:
    return format_micros(millis * _MILLIS) or ""


def _reject(topic: str, expected: str, line: int, actual: str) -> NoReturn:
    msg = f"Topic `{topic}`: expected {expected}, got {actual} (line {line} of the file)."
    raise LogError(msg + "\nHint: nothing was sent. Change the topic's setting or the record, or use another topic.")


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
