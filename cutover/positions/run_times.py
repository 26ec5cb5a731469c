"""Position by the start and the end of a run that read a topic up to its end: bounds, by the times of its records.

A record that was appended before the run began was there to be read, and one that was appended after it ended was not.
Only the broker's time says when a record was appended (`message.timestamp.type=LogAppendTime`), and it is compared with
the clock of the run. A run that reads committed records stops at the first open transaction, so a lower bound is proven
only if no offset without a record, such as a transaction's marker, follows within the longest time of a transaction.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message

from cutover.errors import DefinitionError
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import get_offset
from cutover.positions.log_check import TopicBounds, read_topic_bounds
from cutover.positions.position import Position, PositionReport, UnknownPosition
from cutover.timestamps import format_micros, parse_micros

TRANSACTION_MICROS = 15 * 60_000_000
"""Longest time of a transaction that brokers allow by default (`transaction.max.timeout.ms`)."""

_TYPE, _APPEND_TIME = "message.timestamp.type", "LogAppendTime"
_UNCOMMITTED = "read_uncommitted"
_WIDTH, _GROWTH = 16, 8  # offsets in which the last record is looked for at first, and the factor by which they grow
_MILLISECOND = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimes:
    """Times of a run, widened by the largest difference between its clock and those of the brokers."""

    start: int  # microseconds; the run began to read later
    end: int  # microseconds; the run committed its rows earlier


class _NoBoundError(Exception):
    """Why the times of a topic's records bound nothing."""


def parse_run_times(text: str, *, clock_difference: int, now: int) -> RunTimes:
    """Parse `START,END` in ISO 8601.

    Args:
        text: The times, with their zones; UTC without one.
        clock_difference: Largest difference between the run's clock and those of the brokers, microseconds.
        now: Current time, microseconds.

    Raises:
        DefinitionError: It is no pair of times, the end precedes the start, or the run has not ended.
    """
    try:
        start, end = (parse_micros(part.strip()) for part in text.split(","))
    except ValueError:
        msg = f"--run: expected START,END such as 2026-03-01T02:00:00Z,2026-03-01T02:10:00Z, got `{text[:80]}`."
        raise DefinitionError(msg) from None
    if end < start:
        msg = f"--run: expected an end at or after {format_micros(start)}, got {format_micros(end)}."
        raise DefinitionError(msg)
    if end > now:
        msg = f"--run: expected the times of a run that has ended, its end is {format_micros(end)}."
        raise DefinitionError(msg)
    return RunTimes(start=start - clock_difference, end=end + clock_difference)


def find_run_position(client: LogClient, topics: tuple[str, ...], times: RunTimes) -> PositionReport:
    """Find the bounds of a table that one run has written, which read its topics from before up to their ends.

    Raises:
        LogError: No broker responds, or a topic does not exist.
    """
    source = f"records appended before {format_micros(times.start)} and after {format_micros(times.end)}"
    ids = {topic: client.topic_id(topic) for topic in topics}
    lower, upper = dict[str, dict[int, int]](), dict[str, dict[int, int]]()
    for topic in topics:
        timestamp_type = client.config(topic).get(_TYPE)
        if timestamp_type != _APPEND_TIME:
            reason = f"`{_TYPE}` of topic {topic} is {timestamp_type}: times that producers set do not show when a"
            return PositionReport(
                position=UnknownPosition(f"{reason} record was appended; only {_APPEND_TIME} does"), source=source
            )
        try:
            lower[topic], upper[topic] = _find_bounds(client, topic, times)
        except _NoBoundError as error:
            return PositionReport(position=UnknownPosition(str(error)), source=source)
    position = Position(topics=lower, upto=upper, watermark=None, table_version=None, at=None, topic_ids=ids)
    return PositionReport(position=position, source=source)


def _find_bounds(client: LogClient, topic: str, times: RunTimes) -> tuple[dict[int, int], dict[int, int]]:
    before = read_topic_bounds(client, (topic,))[topic]
    firsts = client.offsets_for_time(topic, times.start)
    # Kafka's times are whole milliseconds: a record of the same one may have been appended before the run ended.
    lasts = client.offsets_for_time(topic, times.end + _MILLISECOND)
    after = read_topic_bounds(client, (topic,)).get(topic)
    if after is None or after.topic_id != before.topic_id or after.ends.keys() != before.ends.keys():
        msg = f"topic {topic} was created again, or got partitions, while it was read"
        raise _NoBoundError(msg)
    settled = client.offsets_for_time(topic, times.start + TRANSACTION_MICROS)
    stable = client.latest(topic)  # up to the first transaction that is still open
    lower, upper = dict[int, int](), dict[int, int]()
    for partition in before.ends:
        first, last = firsts[partition], lasts[partition]
        start = before.ends[partition] if first is None else first
        lower[partition] = _find_lower(client, topic, partition, start, before)
        if stable[partition] < lower[partition]:
            msg = (
                f"a transaction that began before offset {lower[partition]} of topic {topic}, partition {partition}, is"
            )
            raise _NoBoundError(msg + " still open: a run that reads committed records has read less")
        if lower[partition]:
            until = settled[partition]
            _check_no_gap(client, topic, partition, (start, after.ends[partition] if until is None else until))
        upper[partition] = after.ends[partition] if last is None else last
        if last is not None:
            _check_append_time(topic, partition, next(_messages(client, topic, partition, last, after), None))
    return lower, upper


def _find_lower(client: LogClient, topic: str, partition: int, start: int, bounds: TopicBounds) -> int:
    """Return an offset before which every record was appended before the run; 0 if no record that is kept shows it."""
    earliest, width = bounds.earliest[partition], _WIDTH
    while start > earliest:
        ranges = {partition: (max(earliest, start - width), start)}
        message = max(client.messages(topic, ranges, _UNCOMMITTED), key=get_offset, default=None)
        if message is not None:
            _check_append_time(topic, partition, message)
            return start
        if start - width <= earliest:
            break
        width *= _GROWTH
    return 0


def _messages(client: LogClient, topic: str, partition: int, start: int, bounds: TopicBounds) -> Iterator[Message]:
    return client.messages(topic, {partition: (start, bounds.ends[partition])}, _UNCOMMITTED)


def _check_append_time(topic: str, partition: int, message: Message | None) -> None:
    """Check that a record has the broker's time: older records keep a producer's when the topic's setting changes."""
    if message is None or message.timestamp()[0] != TIMESTAMP_LOG_APPEND_TIME:
        offset = "the first one after the run" if message is None else f"offset {get_offset(message)}"
        msg = f"a record of topic {topic}, partition {partition}, {offset}, has a time that its producer set: "
        raise _NoBoundError(msg + f"`{_TYPE}` was changed later")


def _check_no_gap(client: LogClient, topic: str, partition: int, offset_range: tuple[int, int]) -> None:
    expected, end = offset_range
    for _, offset, _ in client.positions(topic, {partition: offset_range}, _UNCOMMITTED):
        if offset != expected:
            break
        expected += 1
    if expected < end:
        msg = f"offset {expected} of topic {topic}, partition {partition}, has no record: if it is the marker of a "
        raise _NoBoundError(msg + "transaction that was open when the run began, the run read less than was appended")
