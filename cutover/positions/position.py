"""Position: the offsets up to which a table contains the records of its topics, and how much of that is proven.

A position is exact if it names the next offset of each partition, and bounded if it names a lower and an upper one. Its
JSON object is the contract `cutover.position/1` (see `contract`), which a job carries in the commit of its data.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from cutover.counts import count_noun
from cutover.positions.delta_versions import Evidence, TableVersion
from cutover.positions.spark_checkpoint import Batch, SparkCheckpoint
from cutover.timestamps import format_micros

FORMAT = "cutover.position/1"

SHOWN_PARTITIONS = 10
"""Partitions of a topic that are printed; `--json` has all of them."""

TopicOffsets = Mapping[str, Mapping[int, int]]
"""Topic -> partition -> next offset, exclusive."""


class PositionLevel(StrEnum):
    """How much of a position is known."""

    EXACT = "exact"  # the table contains every record before the offsets, and none at or after them
    BOUNDED = "bounded"  # it contains every record before `topics`, and none at or after `upto`
    UNKNOWN = "unknown"


CUT_VARIABLE = "CUTOVER_CUT"
"""Environment variable from which a batch job takes the offsets up to which it reads, in the form of Spark."""

POSITION_VARIABLE = "CUTOVER_POSITION"
"""Environment variable with the position that it records: the offsets with the ids of their topics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Position of a table."""

    topics: TopicOffsets
    upto: TopicOffsets | None = None  # upper bounds of the same partitions; None: `topics` is exact
    watermark: int | None  # by which the newest records were judged, microseconds; None: unknown, or no watermark
    table_version: int | None  # of Delta, or the snapshot id of Iceberg; None: unknown, or a table without versions
    table_rows: int | None = None  # number of rows that the job has left in the table; None: not recorded
    table_ends: Mapping[int, int] | None = None  # partition of a topic of rows -> offset after the job's last record
    at: int | None  # when these records were planned, microseconds; None: unknown
    topic_ids: Mapping[str, str] = field(default_factory=dict)  # of the topics that the job recorded it for

    @property
    def level(self) -> PositionLevel:
        """Return `EXACT` if no upper bound is above its lower one, else `BOUNDED`."""
        is_exact = self.upto is None or all(self.upto[topic] == ends for topic, ends in self.topics.items())
        return PositionLevel.EXACT if is_exact else PositionLevel.BOUNDED

    def to_json(self) -> dict[str, object]:
        """Convert to the JSON object of the contract."""
        bounds = {} if self.upto is None or self.level is PositionLevel.EXACT else {"upto": encode_offsets(self.upto)}
        ends = None if self.table_ends is None else {str(p): end for p, end in sorted(self.table_ends.items())}
        table = {"version": self.table_version, "rows": self.table_rows, "ends": ends}
        ids = {"topic_ids": dict(sorted(self.topic_ids.items()))} if self.topic_ids else {}
        return {
            "format": FORMAT,
            "topics": encode_offsets(self.topics),
            **bounds,
            "watermark": format_micros(self.watermark),
            "table": {name: value for name, value in table.items() if value is not None} or None,
            "at": format_micros(self.at),
            **ids,
        }


def encode_offsets(topics: TopicOffsets) -> dict[str, dict[str, int]]:
    """Convert offsets to the JSON object that Spark's `endingOffsets` has, too: topic to partition to offset."""
    return {
        topic: {str(partition): offset for partition, offset in sorted(offsets.items())}
        for topic, offsets in sorted(topics.items())
    }


def make_job_environment(position: Position) -> dict[str, str]:
    """Make the environment of a batch job: the offsets up to which it reads, and the position that it records.

    Without spaces, at which a shell would divide the values.
    """
    values = {CUT_VARIABLE: encode_offsets(position.topics), POSITION_VARIABLE: position.to_json()}
    return {name: json.dumps(value, separators=(",", ":")) for name, value in values.items()}


def format_topic_offsets(topics: TopicOffsets, upto: TopicOffsets | None = None) -> str:
    """Format offsets for people, of the first partitions: `payments 0:300 1:250..300` has one upper bound."""
    return "; ".join(
        f"{topic} {_format_partitions(ends, ends if upto is None else upto[topic])}"
        for topic, ends in sorted(topics.items())
    )


def _format_partitions(ends: Mapping[int, int], upper: Mapping[int, int]) -> str:
    shown = " ".join(
        f"{partition}:{end}" if upper[partition] == end else f"{partition}:{end}..{upper[partition]}"
        for partition, end in sorted(ends.items())[:SHOWN_PARTITIONS]
    )
    return shown if len(ends) <= SHOWN_PARTITIONS else f"{shown} ... ({count_noun(len(ends), 'partition')})"


@dataclass(frozen=True, slots=True)
class UnknownPosition:
    """Reason why the position of a table cannot be known."""

    reason: str

    @property
    def level(self) -> PositionLevel:
        """Return `UNKNOWN`, so that every position has a level."""
        return PositionLevel.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionReport:
    """A position, with the source that states it and what else was seen there."""

    position: Position | UnknownPosition
    source: str  # in words: `userMetadata of version 7 (MERGE)`
    notes: tuple[str, ...] = ()  # sentences
    recorded_at: int | None = None  # when the job recorded it, microseconds, by the clock of the table; None: not kept
    unnamed_are_unread: bool = False  # a partition that the source does not name was not read at all


def find_retreat(position: Position, earlier: Position) -> str | None:
    """Find what an earlier position of a table states beyond a later one; None if nothing."""
    for topic, ends in earlier.topics.items():
        for partition, end in sorted(ends.items()):
            later = position.topics.get(topic, {}).get(partition)
            if later is None or later < end:
                return (
                    f"offset {end} of topic {topic}, partition {partition}, and the newest position {later or 'none'}"
                )
    return None


def find_position(checkpoint: SparkCheckpoint, versions: Sequence[TableVersion] | None) -> Position | UnknownPosition:
    """Find the position of the table that a query writes.

    It is that of the newest batch that has committed, or that has marked a version: a query that is killed between the
    commit of its table and its own has written a batch that its checkpoint does not call committed, and a batch that
    changes nothing writes no version. Without a table, a planned batch is an upper bound.

    Args:
        checkpoint: Of the query.
        versions: Of its table; None if the table was not named.
    """
    committed = checkpoint.newest_committed
    if versions is None:
        if committed is None:
            return UnknownPosition("no batch has committed yet")
        return _make_bounded(committed, checkpoint.batches[-1])
    own_versions = [version for version in versions if version.batch is not None]
    reason = _find_doubt(checkpoint, versions, own_versions)
    if reason is not None:
        return UnknownPosition(reason)
    newest = max(version.batch or 0 for version in own_versions)
    newest = newest if committed is None else max(newest, committed.number)
    batch = next((batch for batch in checkpoint.batches if batch.number == newest), None)
    if batch is None:
        return UnknownPosition(f"the checkpoint keeps no batch {newest}")
    return _make_position(batch, own_versions[-1].version)


def _make_bounded(committed: Batch, planned: Batch) -> Position:
    """Make a position between the newest batch that has committed and the newest one that was planned."""
    lower = {t: {p: committed.ends.get(t, {}).get(p, 0) for p in ends} for t, ends in planned.ends.items()}
    position = _make_position(committed, None)
    return position if planned.is_committed else replace(position, topics=lower, upto=planned.ends)


def _make_position(batch: Batch, table_version: int | None) -> Position:
    return Position(
        topics=batch.ends, watermark=batch.judged_by or None, table_version=table_version, at=batch.planned_at
    )


def _find_doubt(
    checkpoint: SparkCheckpoint, versions: Sequence[TableVersion], own_versions: Sequence[TableVersion]
) -> str | None:
    """Find why the versions of a table do not show which batches it contains."""
    if not own_versions:
        return "no version of the table came from a batch that the checkpoint keeps"
    foreign = next((version for version in reversed(versions) if version.is_foreign), None)
    if foreign is not None:
        return f"version {foreign.version} ({foreign.operation}) was not written by the query"
    if own_versions[-1].evidence is not Evidence.TIME:
        return None
    newest, committed = checkpoint.batches[-1].number, checkpoint.newest_committed
    last = own_versions[-1]
    if committed is None or (last.batch or 0) > committed.number:
        return f"version {last.version} may be that of batch {last.batch}, which has not committed"
    counts = Counter(version.batch for version in own_versions)
    if len(own_versions) > 1 and counts.pop(newest, 0) > max(counts.values(), default=1):
        return f"batch {newest} is the newest one and cannot have written all versions that are later than it"
    return None
