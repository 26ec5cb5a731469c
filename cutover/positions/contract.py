"""Contract `cutover.position/1`: the JSON object in which any job records its position, parsed strictly.

A field that is misspelt or has another type is rejected, since an upper bound that is overlooked would turn a bounded
position into an exact one. The JSON of Spark's `endingOffsets` alone is the short form of an exact position.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from cutover.errors import LakeError
from cutover.output.cells import visible
from cutover.positions.position import FORMAT, Position, TopicOffsets
from cutover.timestamps import to_micros

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
        return _make_position(document)
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


def _make_position(document: Mapping[str, Any]) -> Position:
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
