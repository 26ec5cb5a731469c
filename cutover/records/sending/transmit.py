"""Delivery of messages to the broker: idempotent, in order, waiting for every acknowledgement."""

from collections.abc import Callable, Iterator
from functools import partial
from time import sleep

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from cutover.clock import Clock
from cutover.errors import InterruptedRunError, LogError
from cutover.log import options
from cutover.log.kafka import LogClient
from cutover.records.sending.delivered import make_headers
from cutover.records.sending.rows import FileRecord
from cutover.records.sending.topic import Target
from cutover.settings import Settings

MILLIS = 1_000
FLUSH_SECONDS = 60.0
INTERRUPTED_FLUSH_SECONDS = 5.0
_ADVANCE_EVERY = 1_000  # records
_BATCH_BYTES = 1_000_000  # librdkafka's own limit

ProgressCallback = Callable[[int], None]


def pace_rows(rows: Iterator[FileRecord], speed: float | None, clock: Clock) -> Iterator[FileRecord]:
    """Delay each record until its log time relative to the first one, replayed `speed` times faster."""
    began, first_micros = clock.monotonic(), None
    for row in rows:
        if speed is not None and row.log_micros is not None:
            first_micros = row.log_micros if first_micros is None else first_micros
            due = began + (row.log_micros - first_micros) / 1_000_000 / speed
            while (wait := due - clock.monotonic()) > 0:
                sleep(min(wait, 0.5))
        yield row


def send_records(
    settings: Settings,
    client: LogClient,
    target: Target,
    run: str,
    rows: Iterator[FileRecord],
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
        for number, row in enumerate(rows, start=1):
            # Round robin, ignoring the key: a replay reads each partition in proportion to its size, so the event times
            # of partitions by key would drift apart by days, and records would be classified differently than live.
            transmission.produce(producer, row, partitions[number % len(partitions)], run)
            if number % _ADVANCE_EVERY == 0:
                advance(_ADVANCE_EVERY)
                transmission.check()
        remaining = producer.flush(FLUSH_SECONDS)
    except KafkaException as error:
        raise transmission.make_error(error.args[0].str()) from error
    except KeyboardInterrupt:
        raise transmission.make_interruption(producer.flush(INTERRUPTED_FLUSH_SECONDS)) from None
    transmission.check()
    if remaining:
        detail = f"{remaining:,} not acknowledged after {FLUSH_SECONDS:g} s"
        raise transmission.make_error(detail)


class _Transmission:
    """Delivery state of the messages sent so far."""

    def __init__(self, target: Target) -> None:
        self._topic = target.log.topic
        self._acknowledged = 0
        self._rejected: list[tuple[int, KafkaError]] = []  # line, cause

    def produce(self, producer: Producer, row: FileRecord, partition: int, run: str) -> None:
        """Pass one record to the client, waiting while its buffer is full."""
        timestamp = 0 if row.log_micros is None else row.log_micros // MILLIS  # 0: the current time
        while True:
            try:
                producer.produce(
                    self._topic,
                    value=row.value,
                    key=row.key,
                    on_delivery=partial(self._note_delivery, row.line),
                    partition=partition,
                    timestamp=timestamp,
                    headers=make_headers(run, row.number),
                )
            except BufferError:
                producer.poll(0.1)
            else:
                producer.poll(0)
                return

    def check(self) -> None:
        """Check that no record was rejected.

        Raises:
            LogError: A record was rejected; the message contains the line of the first one.
        """
        if self._rejected:
            line, error = self._rejected[0]
            other_records = f" and {len(self._rejected) - 1:,} others" if len(self._rejected) > 1 else ""
            detail = f"{error.str()} for the record of line {line}{other_records}"
            raise self.make_error(detail)

    def make_error(self, detail: str) -> LogError:
        """Return the error that not all records were accepted, with the number of acknowledged records and a hint."""
        msg = f"Topic `{self._topic}`: expected every record to be accepted, got: {detail}."
        acknowledged = f"{self._acknowledged:,} records of this run were acknowledged"
        return LogError(f"{msg}\nHint: {acknowledged}; the same command without `--again` sends only what is missing.")

    def make_interruption(self, unanswered: int) -> InterruptedRunError:
        """Return the error of an interrupted run, with the number of records sent and how to send the others."""
        count = f"at least {self._acknowledged:,}" if unanswered else f"{self._acknowledged:,}"
        return InterruptedRunError(
            f"Interrupted: {count} records of this run were sent to topic `{self._topic}`; the same command without "
            "`--again` sends the others."
        )

    def _note_delivery(self, line: int, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self._acknowledged += 1
        else:
            self._rejected.append((line, error))


def _producer_options(settings: Settings, client: LogClient, target: Target) -> dict[str, str | int | float | bool]:
    return {
        **options.make_librdkafka_options(settings.kafka, client.bootstrap),
        "enable.idempotence": True,
        "acks": "all",
        "linger.ms": 20,
        "compression.type": "lz4",
        "message.max.bytes": target.max_bytes,
        "batch.size": min(_BATCH_BYTES, target.max_bytes),
        "queue.buffering.max.kbytes": 65_536,
        "message.timeout.ms": int(FLUSH_SECONDS * MILLIS),
        "log_level": 0,
    }
