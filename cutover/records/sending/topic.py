"""Topic that `produce` writes to: created with settings for old timestamps, or checked to accept every record.

A topic limits the size of a record batch (`max.message.bytes`), which `BATCH_BYTES` computes as of Kafka's message
format 2.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from confluent_kafka import KafkaError

from cutover.clock import Clock
from cutover.errors import LogError
from cutover.log.cut import LogId
from cutover.log.kafka import LogClient
from cutover.records.sending.rows import FileRecord
from cutover.records.sending.spool import NO_KEY, Spool
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
