"""Position: the offsets up to which a table contains the records of its topics, and how much of that is proven.

A position is exact if it names the next offset of each partition, and bounded if it names a lower and an upper one. A
job carries it in the commit of its data, as the JSON object of the contract `cutover.position/1`, which is parsed
strictly: a field that is misspelt or has another type is rejected, since an upper bound that is overlooked would turn a
bounded position into an exact one. The JSON of Spark's `endingOffsets` alone is the short form of an exact position.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, NoReturn

from cutover.counts import count_noun
from cutover.errors import LakeError
from cutover.output.cells import visible
from cutover.positions.delta_versions import Evidence, TableVersion
from cutover.positions.spark_checkpoint import Batch, SparkCheckpoint
from cutover.timestamps import format_micros, to_micros

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


MAX_CHARACTERS = 16 * 1024 * 1024
"""Maximum length of a contract: more than the offsets of 100,000 partitions."""

_FAMILY = "cutover.position/"
_FIELDS = frozenset({"format", "topics", "upto", "watermark", "table", "at", "topic_ids"})
_TABLE_FIELDS = frozenset({"version", "rows", "ends"})
TOPIC_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
"""Names that Kafka accepts."""

_PARTITION = re.compile("0|[1-9][0-9]{0,9}")
_MAX_PARTITION, _MAX_OFFSET = 2**31 - 1, 2**63 - 1
_SPECIAL_OFFSETS = {-1: "latest", -2: "earliest"}
_SHOWN = 60  # characters of a value in a message


class _MalformedError(ValueError):
    """What was expected instead."""


def parse_position(text: str, *, place: str) -> Position:
    """Parse a position that a job has recorded, in the long or the short form.

    Args:
        text: JSON.
        place: Where it is, for messages: `Table `/data/payments`, version 7, `userMetadata``.

    Raises:
        LakeError: It is malformed; the message names the field.
    """
    try:
        document = _load(text)
        if "format" not in document:
            if not document or not all(isinstance(offsets, dict) for offsets in document.values()):
                _expect(f"`format` with `{FORMAT}`", document)
            return _make_short(document)
        return _read_position(document)
    except _MalformedError as error:
        msg = f"{place}: expected a position in the form `{FORMAT}`: {error}."
        raise LakeError(msg + "\nHint: docs/positions.md describes the form.") from None


def carries_position(text: object) -> bool:
    """Return whether a text that a commit carries is meant as a position, well formed or not."""
    if not isinstance(text, str):
        return False
    if _FAMILY in text:
        return True
    try:
        _make_short(_load(text))
    except _MalformedError:
        return False
    return True


def _load(text: str) -> dict[str, Any]:
    if len(text) > MAX_CHARACTERS:
        raise _MalformedError(f"at most {MAX_CHARACTERS:,} characters, got {len(text):,}")  # noqa: EM102 -- of the parser
    try:
        document = json.loads(text, object_pairs_hook=_reject_repeated, parse_constant=_reject_constant)
    except _MalformedError:
        raise
    except (ValueError, RecursionError):
        _expect("JSON", text)
    if not isinstance(document, dict):
        _expect("a JSON object", document)
    return dict(document)


def _reject_repeated(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    name, count = Counter(name for name, _ in pairs).most_common(1)[0] if pairs else ("", 1)
    if count > 1:
        _expect("every name once", name)
    return dict(pairs)


def _reject_constant(name: str) -> NoReturn:
    _expect("numbers", name)


def _expect(expected: str, actual: object) -> NoReturn:
    shown = actual if isinstance(actual, str) else json.dumps(actual, default=str)
    shown = visible(shown[:_SHOWN]) + ("..." if len(shown) > _SHOWN else "")
    raise _MalformedError(f"expected {expected}, got `{shown}`")  # noqa: EM102 -- of the parser


def _make_short(document: Mapping[str, Any]) -> Position:
    topics = _parse_offsets(document, "the object")
    return Position(topics=topics, watermark=None, table_version=None, at=None)


def _read_position(document: Mapping[str, Any]) -> Position:
    version = document["format"]
    if version != FORMAT:
        _expect(f"`format` to be `{FORMAT}`, the only version that is known", version)
    unknown = sorted(document.keys() - _FIELDS)
    if unknown:
        _expect(f"only the fields {', '.join(sorted(_FIELDS))}", unknown[0])
    if "topics" not in document:
        _expect("the field `topics`", sorted(document))
    topics, upto = _parse_bounds(document)
    table = _parse_table(document.get("table"))
    return Position(
        topics=topics,
        upto=upto,
        watermark=_parse_time(document.get("watermark"), "watermark"),
        table_version=table.get("version"),
        table_rows=table.get("rows"),
        table_ends=_parse_table_ends(document.get("table")),
        at=_parse_time(document.get("at"), "at"),
        topic_ids=_parse_ids(document.get("topic_ids"), topics),
    )


def _parse_bounds(document: Mapping[str, Any]) -> tuple[TopicOffsets, TopicOffsets | None]:
    """Parse lower and upper bounds; a partition that only `upto` names has the lower bound 0."""
    topics = _parse_offsets(document["topics"], "`topics`")
    if document.get("upto") is None:
        return topics, None
    upto = _parse_offsets(document["upto"], "`upto`")
    if upto.keys() != topics.keys():
        _expect(f"`upto` to name the topics of `topics`, {', '.join(sorted(topics))}", ", ".join(sorted(upto)))
    for topic, ends in upto.items():
        missing = sorted(topics[topic].keys() - ends.keys())
        if missing:
            _expect(f"`upto` to name partition {missing[0]} of `{topic}`, which `topics` names", sorted(ends))
        for partition, end in sorted(ends.items()):
            if end < topics[topic].get(partition, 0):
                place = f"`upto` of `{topic}`, partition {partition}"
                _expect(f"{place} to be at least {topics[topic][partition]}, its offset in `topics`", end)
    lower = {topic: {p: topics[topic].get(p, 0) for p in ends} for topic, ends in upto.items()}
    return lower, upto


def _parse_offsets(value: object, name: str) -> dict[str, dict[int, int]]:
    if not isinstance(value, dict) or not value:
        _expect(f"{name} to be an object with at least one topic", value)
    return {topic: _parse_topic(topic, partitions, name) for topic, partitions in value.items()}


def _parse_topic(topic: str, partitions: object, name: str) -> dict[int, int]:
    if not TOPIC_NAME.fullmatch(topic):
        _expect(f"names of topics in {name}", topic)
    return _parse_partitions(partitions, f"{name} of `{topic}`")


def _parse_partitions(partitions: object, name: str) -> dict[int, int]:
    if not isinstance(partitions, dict) or not partitions:
        _expect(f"{name} to be an object with at least one partition", partitions)
    for partition, offset in partitions.items():
        if not _PARTITION.fullmatch(partition) or int(partition) > _MAX_PARTITION:
            _expect(f"numbers of partitions in {name}", partition)
        place = f"{name}, partition {partition}"
        if type(offset) is int and offset in _SPECIAL_OFFSETS:
            _expect(f"{place} to be an offset, not `{_SPECIAL_OFFSETS[offset]}`, which names none", offset)
        if type(offset) is not int or not 0 <= offset <= _MAX_OFFSET:
            _expect(f"{place} to be a whole number from 0", offset)
    return {int(partition): offset for partition, offset in partitions.items()}


def _parse_time(value: object, name: str) -> int | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        _expect(f"`{name}` to be null or a time with its zone, such as 2026-03-01T14:36:20Z", value)
    return to_micros(moment)


def _parse_table(value: object) -> dict[str, int]:
    """Parse the numbers that a position has of its table: its version, and how many rows the job has left in it."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not value or not value.keys() <= _TABLE_FIELDS:
        _expect('`table` to be null or an object such as {"version": 7} or {"rows": 270}', value)
    numbers = {name: number for name, number in value.items() if name != "ends"}
    for name, number in numbers.items():
        if type(number) is not int or not 0 <= number <= _MAX_OFFSET:
            _expect(f"`{name}` of `table` to be a whole number from 0", number)
    return numbers


def _parse_table_ends(value: object) -> dict[int, int] | None:
    """Parse up to which offsets the job has written the partitions of a topic of rows; None: it is no topic."""
    ends = value.get("ends") if isinstance(value, dict) else None
    return None if ends is None else _parse_partitions(ends, "`ends` of `table`")


def _parse_ids(value: object, topics: TopicOffsets) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not value.keys() <= topics.keys():
        _expect("`topic_ids` to be null or an object whose names are topics of `topics`", value)
    wrong = next((topic_id for topic_id in value.values() if not isinstance(topic_id, str) or not topic_id), None)
    if wrong is not None:
        _expect("`topic_ids` to hold the ids of topics as texts", wrong)
    return dict(value)
