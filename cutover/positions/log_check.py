"""Positions compared with the topics that they name: what contradicts them, and which bounds the log's ends give.

The ends are read after the table: whatever its version contains was in the log then. So they are an upper bound of
every position, and a partition that a job has not named lies between offset 0 and its end.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from cutover.definition.model.pipeline import Pipeline
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import name_log, split_topics
from cutover.positions.position import Position, PositionReport, TopicOffsets, UnknownPosition
from cutover.timestamps import to_micros

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
