"""Positions and their topics: contradictions, and the bounds by the log, by a consumer group, or by times of a run.

The log's ends are read after the table: whatever its version contains was in the log then. So they are an upper bound
of every position, and a partition that a job has not named lies between offset 0 and its end.

The offsets that a consumer group has committed are read without joining it. They are not written in the commit of the
table. Read before the table, they are a lower bound if the job commits its rows at most a known time after them: no
time for a consumer that commits offsets after its rows, two checkpoint intervals for Flink, whose source and sink
commit independently of each other once a checkpoint is complete. The group read again after the table is no upper
bound: after a restart, a job may have written rows beyond the offsets that it commits next. The log's end is one. If
both are equal, nothing was left to read, and the position is exact.

By the start and the end of a run that read a topic up to its end: a record that was appended before the run began was
there to be read, and one that was appended after it ended was not. Only the broker's time says when a record was
appended (`message.timestamp.type=LogAppendTime`), and it is compared with the clock of the run. A run that reads
committed records stops at the first open transaction, so a lower bound is proven only if no offset without a record,
such as a transaction's marker, follows within the longest time of a transaction.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaException, Message

from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import (
    get_offset,
    make_topic_partition,
    name_log,
    number_topic_partition,
    split_topics,
)
from cutover.log.transient_errors import retry_transient
from cutover.positions.position import Position, PositionReport, TopicOffsets, UnknownPosition
from cutover.timestamps import format_micros, parse_micros, to_micros

_INTERNAL = "__"  # topics that the client does not list

_UNCOMMITTED = "read_uncommitted"
"""A job may have read what was aborted later: Spark reads uncommitted records unless it is told otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicBounds:
    """Offsets that a topic holds."""

    topic_id: str
    earliest: Mapping[int, int]  # partition -> first offset
    ends: Mapping[int, int]  # partition -> next offset, including open transactions


def find_log_end(client: LogClient, pipeline: Pipeline, now: datetime) -> Position:
    """Find the end of each partition of a pipeline's topics, as far as readers of its isolation receive records.

    Raises:
        LogError: No broker responds, or a topic does not exist.
    """
    topics = {topic: client.latest(topic, pipeline.source.isolation) for topic in split_topics(name_log(pipeline))}
    ids = {topic: client.topic_id(topic) for topic in topics}
    return Position(topics=topics, watermark=None, table_version=None, at=to_micros(now), topic_ids=ids)


def read_topic_bounds(client: LogClient, topics: TopicOffsets | tuple[str, ...]) -> dict[str, TopicBounds]:
    """Read the bounds of topics; one that does not exist is omitted.

    Raises:
        LogError: No broker responds, or a topic with the name of an internal one does not exist.
    """
    existing = set(client.topics())
    return {
        topic: TopicBounds(
            topic_id=client.topic_id(topic), earliest=client.earliest(topic), ends=client.high_watermarks(topic)
        )
        for topic in topics
        if topic in existing or topic.startswith(_INTERNAL)
    }


def compare_with_log(report: PositionReport, bounds: Mapping[str, TopicBounds]) -> PositionReport:
    """Compare a position with the topics that it names.

    Returns:
        The position with all partitions of its topics, or why it is unknown.
    """
    position = report.position
    if isinstance(position, UnknownPosition):
        return report
    reason = next(_list_contradictions(position, bounds), None)
    if reason is not None:
        return replace(report, position=UnknownPosition(reason))
    lower = dict[str, dict[int, int]]()
    upper = dict[str, dict[int, int]]()
    notes = list(report.notes)
    for topic, ends in position.topics.items():
        topic_bounds = bounds[topic]
        unnamed = sorted(topic_bounds.ends.keys() - ends.keys())
        uppers = ends if position.upto is None else position.upto[topic]
        lower[topic] = {**dict.fromkeys(unnamed, 0), **ends}
        upper[topic] = {**{p: 0 if report.unnamed_are_unread else topic_bounds.ends[p] for p in unnamed}, **uppers}
        if unnamed and not report.unnamed_are_unread:
            names = ", ".join(map(str, unnamed))
            notes.append(f"Not named: {topic}, partition {names}: between offset 0 and the log's end.")
        notes += [
            f"Topic {topic}, partition {p}: the log begins at offset {topic_bounds.earliest[p]}, after the position."
            for p, offset in sorted(lower[topic].items())
            if offset < topic_bounds.earliest[p] and (p in ends or not report.unnamed_are_unread)
        ]
    return replace(report, position=replace(position, topics=lower, upto=upper), notes=tuple(notes))


def tighten_bounds(client: LogClient, report: PositionReport, bounds: Mapping[str, TopicBounds]) -> PositionReport:
    """Lower upper bounds to the lower ones where only markers of transactions lie between them.

    Not of a compacted topic: a table may contain records that its log no longer has.

    Raises:
        LogError: No broker responds.
    """
    position = report.position
    if isinstance(position, UnknownPosition) or position.upto is None:
        return report
    upto = {topic: dict(ends) for topic, ends in position.upto.items()}
    for topic, starts in position.topics.items():
        unequal = [p for p, start in starts.items() if start < upto[topic][p]]
        if unequal and "compact" in client.config(topic).get("cleanup.policy", ""):
            continue
        for p in unequal:
            if _is_empty(client, topic, p, (starts[p], upto[topic][p]), bounds[topic]):
                upto[topic][p] = starts[p]
    return replace(report, position=replace(position, upto=upto))


def _is_empty(
    client: LogClient, topic: str, partition: int, offset_range: tuple[int, int], bounds: TopicBounds
) -> bool:
    """Return whether the log still has all of a range, and no record in it."""
    start, end = offset_range
    if start < bounds.earliest[partition] or end > bounds.ends[partition]:
        return False
    return next(client.positions(topic, {partition: offset_range}, _UNCOMMITTED), None) is None


def _list_contradictions(position: Position, bounds: Mapping[str, TopicBounds]) -> Iterator[str]:
    for topic, ends in position.topics.items():
        topic_bounds = bounds.get(topic)
        if topic_bounds is None:
            yield f"the cluster has no topic {topic}"
            continue
        topic_id = position.topic_ids.get(topic)
        if topic_id not in {None, topic_bounds.topic_id}:
            yield f"topic {topic} was created again: its id is {topic_bounds.topic_id}, the position has {topic_id}"
        for offsets in (ends, ends if position.upto is None else position.upto[topic]):
            for partition, offset in sorted(offsets.items()):
                end = topic_bounds.ends.get(partition)
                if end is None:
                    yield f"topic {topic} has no partition {partition}: it is another topic of this name"
                elif offset > end:
                    yield (
                        f"offset {offset} of topic {topic}, partition {partition}, is beyond the log's end, {end}: the "
                        "topic was created again, lost records, or is that of another cluster"
                    )


def read_group_offsets(client: LogClient, group: str, topic: str) -> dict[int, int | None]:
    """Read the next offset that a group has committed for each partition; None: none, or Kafka has removed it.

    Raises:
        LogError: No broker responds, the group may not be read, or the topic does not exist.
    """
    partitions = [make_topic_partition(topic, partition) for partition in client.partitions(topic)]
    consumer = client.consumer(group=group)
    try:
        committed = retry_transient(
            lambda: consumer.committed(partitions, timeout=client.timeout), seconds=client.timeout
        )
    except KafkaException as error:
        raise client.make_unreachable_error(error) from error
    finally:
        consumer.close()
    failed = next((position.error for position in committed if position.error is not None), None)
    if failed is not None:
        raise client.make_unreachable_error(KafkaException(failed))
    return {
        number_topic_partition(topic, position): position.offset if position.offset >= 0 else None
        for position in committed
    }


_NO_VERSION = "No version of a table was read: the bounds hold for rows that were read while the command ran."

_Offsets = Mapping[str, Mapping[int, int | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRequest:
    """Group and topics whose position is asked for."""

    group: str
    topics: tuple[str, ...]
    rows_within: int  # microseconds after its offsets within which the job has committed the rows


def find_group_position(
    client: LogClient, request: GroupRequest, *, read_version: Callable[[], int | None], wait: Callable[[float], None]
) -> PositionReport:
    """Find the bounds of a table whose job commits its offsets to a group.

    Args:
        client: Of the cluster with the group.
        request: Group, topics, and the promise of the job.
        read_version: Reads the newest version of the table; None without versions, or without a table.
        wait: Waits for some seconds.

    Raises:
        LogError: No broker responds, or a topic does not exist.
    """
    ids = {topic: client.topic_id(topic) for topic in request.topics}
    before = {topic: read_group_offsets(client, request.group, topic) for topic in request.topics}
    wait(request.rows_within / 1e6)
    version = read_version()
    after = {topic: read_group_offsets(client, request.group, topic) for topic in request.topics}
    bounds = read_topic_bounds(client, request.topics)
    source = f"consumer group `{request.group}`, read before and after the table"
    reason = find_group_doubt(request.topics, before, after, bounds)
    if reason is None and any(bounds[topic].topic_id != topic_id for topic, topic_id in ids.items()):
        reason = "a topic was created again while the group was read"
    if reason is not None:
        return PositionReport(position=UnknownPosition(reason), source=source)
    lower = {topic: {p: offset or 0 for p, offset in offsets.items()} for topic, offsets in before.items()}
    position = Position(
        topics=lower,
        upto={topic: {p: bounds[topic].ends[p] for p in offsets} for topic, offsets in lower.items()},
        watermark=None,
        table_version=version,
        at=None,
        topic_ids=ids,
    )
    moved = sum(after[topic][p] != offset for topic, offsets in before.items() for p, offset in offsets.items())
    notes = [f"The group has moved in {moved} of its partitions meanwhile."] if moved else []
    notes += [_NO_VERSION] if version is None else []
    return tighten_bounds(client, PositionReport(position=position, source=source, notes=tuple(notes)), bounds)


def find_group_doubt(
    topics: Sequence[str], before: _Offsets, after: _Offsets, bounds: Mapping[str, TopicBounds]
) -> str | None:
    """Find why the offsets of a group are no bounds: none committed, reset, or beyond the log's end."""
    for topic in topics:
        if topic not in bounds or not before[topic].keys() == after[topic].keys() <= bounds[topic].ends.keys():
            return f"the partitions of topic {topic} changed while the group was read"
        if any(bounds[topic].ends.values()) and all(offset is None for offset in before[topic].values()):
            return f"the group has committed no offset of topic {topic}, or Kafka has removed it"
        for partition, offset in sorted(before[topic].items()):
            later, end = after[topic][partition], bounds[topic].ends[partition]
            place = f"topic {topic}, partition {partition}"
            if offset is not None and (later is None or later < offset):
                return f"the group went back from offset {offset} to {later} of {place}: it was reset"
            if offset is not None and offset > end:
                return f"the group is at offset {offset} of {place}, beyond the log's end, {end}: it was created again"
    return None


TRANSACTION_MICROS = 15 * 60_000_000
"""Longest time of a transaction that brokers allow by default (`transaction.max.timeout.ms`)."""

_TYPE, _APPEND_TIME = "message.timestamp.type", "LogAppendTime"
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
