"""Checkpoint of a Structured Streaming query: batches with their offsets and watermarks, and stateful operators.

Source: the files of Spark 3.4 to 4.2 (`OffsetSeqLog`, `CommitLog`, `OperatorStateMetadata`, `StateSchemaV2`). Spark
keeps the newest 100 batches (`spark.sql.streaming.minBatchesToRetain`). The rows of a batch are judged by the watermark
that was planned with the batch before: since Spark 3.4 a batch has two watermarks, and its own one only removes state.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from pyarrow import fs

from cutover.engine import storage
from cutover.errors import LakeError

MAX_BYTES = 64 * 1024 * 1024
"""Maximum size of a file of a checkpoint."""

GROUPING = "stateStoreSave"
SESSIONS = "sessionWindowStateStoreSaveExec"
JOIN = "symmetricHashJoin"
DEDUPLICATIONS = ("dedupe", "dedupeWithinWatermark")
"""Names of operators, as Spark calls them."""

_VERSION = "v1"
_STRUCT = '{"type":"struct"'
_NO_OFFSET = "-"  # of a source that has read nothing yet
_NUMBER = re.compile("0|[1-9][0-9]{0,17}")
_MAX_MILLIS = 253_402_300_799_999  # the end of the year 9999
_PARTS = 2  # of a file of state schemas: key and value


class LateRule(StrEnum):
    """Which records an operator drops by the watermark that judges a batch."""

    WINDOW = "window"  # those of windows that end at or before the watermark; none in complete mode, except sessions
    ROW = "row"  # those whose own event time is at or before the watermark
    NEVER = "never"  # none: the operator has no watermark, and its state grows
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One micro-batch that the query has planned."""

    number: int
    ends: Mapping[str, Mapping[int, int]]  # topic -> partition -> next offset, exclusive
    planned_at: int  # microseconds, by the clock of the driver
    watermark: int  # when it was planned, microseconds; 0: none yet
    judged_by: int | None  # watermark by which its rows were judged, microseconds; 0: none yet; None: unknown
    is_committed: bool  # its sink is done


@dataclass(frozen=True, slots=True, kw_only=True)
class StateField:
    """Field of the key or of the value that an operator keeps in its state."""

    name: str
    type: str  # as Spark names it, such as `decimal(20,2)`; `struct` and the like for nested ones
    nullable: bool
    is_key: bool
    is_window: bool = False  # a window of the function `window`
    is_timed: bool = False  # it has a watermark


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One stateful operator of the query."""

    id: int
    name: str  # as Spark calls it: `stateStoreSave`, `dedupeWithinWatermark`, ...
    columns: tuple[str, ...]  # of its key in the state; empty for a join
    watermark_delay: int | None  # microseconds; None: it has no watermark, or its schema cannot be read
    late_rule: LateRule
    fields: tuple[StateField, ...] = ()  # of its key, then of its value; empty for a join


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkCheckpoint:
    """What a checkpoint has recorded."""

    query_id: str
    starts: Mapping[str, Mapping[int, int]]  # topic -> partition -> first offset of batch 0; empty: unknown
    batches: tuple[Batch, ...]  # those that are kept, ascending, without a gap; at least one
    operators: tuple[Operator, ...]  # by number, the last one of the query first; empty: the checkpoint holds no state

    @property
    def newest_committed(self) -> Batch | None:
        """Return the newest batch whose sink is done; None: none of those that are kept."""
        return next((batch for batch in reversed(self.batches) if batch.is_committed), None)


def find_newest_commit(uri: str) -> int:
    """Find the number of the newest committed batch of a checkpoint; -1: there is none."""
    return max(_Folder(uri).list_numbers("commits"), default=-1)


def has_new_commits(uri: str, query_id: str, newest: int) -> bool:
    """Return whether a checkpoint is no longer that of a query whose newest committed batch has this number."""
    folder = _Folder(uri)
    commits, metadata = folder.list_numbers("commits"), folder.read("metadata")
    return commits[-1:] != [newest] or metadata is None or query_id not in metadata


def read_checkpoint(uri: str, previous: SparkCheckpoint | None = None) -> SparkCheckpoint:
    """Read the checkpoint of a query that reads Kafka.

    Args:
        uri: Its folder, absolute or an URI.
        previous: Result of an earlier call, whose committed batches are not read again if the query is the same.

    Raises:
        LakeError: The folder is no checkpoint, was written by another version, lacks a file, or reads no Kafka topic.
    """
    folder = _Folder(uri)
    metadata = folder.read("metadata")
    if metadata is None:
        msg = f"Checkpoint `{uri}`: expected the folder of a Structured Streaming query, found no file `metadata`."
        raise LakeError(msg + "\nHint: it is the `checkpointLocation` of the query.")
    name = "metadata"
    query_id = _parse(folder, name, metadata).get("id")
    if not isinstance(query_id, str) or not query_id:
        raise folder.reject(name, "the id of the query as text")
    numbers, commits = folder.list_numbers("offsets"), folder.list_numbers("commits")
    if not numbers:
        msg = f"Checkpoint `{uri}`: expected planned batches in `offsets/`, found none: the query has not begun."
        raise LakeError(msg)
    known_numbers = set(numbers)
    missing_number = next((number for number in range(numbers[0], numbers[-1]) if number not in known_numbers), None)
    if missing_number is None and commits and commits[-1] > numbers[-1]:
        missing_number = commits[-1]
    if missing_number is not None:
        msg = f"Checkpoint `{uri}`: expected the offsets of every batch, `offsets/{missing_number}` is missing."
        raise LakeError(msg)
    is_same = previous is not None and previous.query_id == query_id and previous.batches[-1].number <= numbers[-1]
    known_batches = {batch.number: batch for batch in previous.batches} if previous is not None and is_same else {}
    batches = tuple(_list_batches(folder, numbers, set(commits), known_batches))
    # Batch 0 is planned with the watermark 0, whatever the query has.
    has_watermark = bool(batches[-1].watermark) or batches[-1].number == 0
    return SparkCheckpoint(
        query_id=query_id,
        starts=_read_starts(folder),
        batches=batches,
        operators=_relate_operators(tuple(_list_operators(folder, has_watermark=has_watermark))),
    )


@dataclass(frozen=True, slots=True)
class _Folder:
    uri: str

    def read(self, name: str) -> str | None:
        """Return the text of a file; None if there is none. Bytes that are no UTF-8 are replaced."""
        try:
            system, root = storage.resolve_uri(self.uri)
            info = system.get_file_info(f"{root}/{name}")
            if not info.is_file:
                return None
            if info.size > MAX_BYTES:
                raise self.reject(name, f"at most {MAX_BYTES:,} bytes, got {info.size:,}")
            with system.open_input_stream(f"{root}/{name}") as stream:
                return str(stream.read().decode("utf-8", "replace"))
        except (OSError, ValueError, NotImplementedError) as error:
            raise self.reject(name, f"a file that can be read, got: {str(error).splitlines()[0]}") from error

    def list_names(self, name: str) -> list[str]:
        """Return the names in a folder below; empty if there is none."""
        try:
            system, root = storage.resolve_uri(self.uri)
            selector = fs.FileSelector(f"{root}/{name}", allow_not_found=True)
            return sorted(info.base_name for info in system.get_file_info(selector))
        except (OSError, ValueError, NotImplementedError) as error:
            raise self.reject(name, f"a folder that can be read, got: {str(error).splitlines()[0]}") from error

    def list_numbers(self, name: str) -> list[int]:
        """Return the names that are whole numbers, ascending: hidden and temporary files are left out."""
        return sorted(int(text) for text in self.list_names(name) if _NUMBER.fullmatch(text))

    def reject(self, name: str, expected: str) -> LakeError:
        """Build the error that a file has other contents than expected."""
        return LakeError(f"Checkpoint `{self.uri}`, `{name}`: expected {expected}.")


def _list_batches(
    folder: _Folder, numbers: Sequence[int], commits: set[int], known_batches: Mapping[int, Batch]
) -> Iterator[Batch]:
    previous: Batch | None = None
    for number in numbers:
        known_batch = known_batches.get(number)
        if known_batch is not None and known_batch.is_committed:
            previous = known_batch
            yield known_batch
            continue
        batch = _read_batch(folder, number)
        judged_by = (0 if number == 0 else None) if previous is None else previous.watermark
        if previous is not None:
            _check_advance(folder, previous, batch)
        if number in commits:
            _check_version(folder, f"commits/{number}")
        previous = replace(batch, judged_by=judged_by, is_committed=number in commits)
        yield previous


def _check_version(folder: _Folder, name: str) -> list[str]:
    lines = (folder.read(name) or "").splitlines()
    if not lines or lines[0] != _VERSION:
        raise folder.reject(name, f"the version `{_VERSION}` in the first line, got `{(lines or [''])[0][:40]}`")
    return lines


def _read_batch(folder: _Folder, number: int) -> Batch:
    name = f"offsets/{number}"
    lines = _check_version(folder, name)
    sources = len(folder.list_numbers("sources")) or 1
    if len(lines) < 2 + sources:
        raise folder.reject(name, f"version, metadata and the offsets of {sources} sources; the file is cut off")
    metadata = _parse(folder, name, lines[1])
    times = [metadata.get(key) for key in ("batchWatermarkMs", "batchTimestampMs")]
    watermark, planned_at = (time if type(time) is int and 0 <= time <= _MAX_MILLIS else None for time in times)
    if watermark is None or planned_at is None:
        raise folder.reject(name, "`batchWatermarkMs` and `batchTimestampMs` as milliseconds in the second line")
    ends = _merge_sources(folder, name, lines[2:])
    return Batch(
        number=number,
        ends=ends,
        planned_at=planned_at * 1_000,
        watermark=watermark * 1_000,
        judged_by=None,
        is_committed=False,
    )


def _check_advance(folder: _Folder, previous: Batch, batch: Batch) -> None:
    """Check that a batch ends no earlier than the one before, in every partition."""
    for topic, ends in previous.ends.items():
        for partition, end in ends.items():
            later = batch.ends.get(topic, {}).get(partition)
            if later is None or later < end:
                name, place = f"offsets/{batch.number}", f"{topic}, partition {partition}"
                raise folder.reject(name, f"at least offset {end} of {place}, got {later}")


def _merge_sources(folder: _Folder, name: str, lines: Sequence[str]) -> dict[str, dict[int, int]]:
    """Merge the offsets of all sources; of a topic that two sources read, the lower ones count."""
    merged: dict[str, dict[int, int]] = {}
    for line in lines:
        if line in {"", _NO_OFFSET}:
            continue
        for topic, offsets in _parse_offsets(folder, name, line).items():
            known = merged.setdefault(topic, {})
            for partition, offset in offsets.items():
                known[partition] = min(offset, known.get(partition, offset))
    if not merged:
        raise folder.reject(name, "the offsets of at least one source")
    return merged


def _parse_offsets(folder: _Folder, name: str, line: str) -> dict[str, dict[int, int]]:
    rejected = folder.reject(name, f'the offsets of Kafka topics, such as {{"payments":{{"0":50}}}}, got `{line[:60]}`')
    try:
        topics = json.loads(line)
    except (ValueError, RecursionError):
        raise rejected from None
    if not isinstance(topics, dict) or not topics:
        raise rejected
    for topic, offsets in topics.items():
        if not topic or not isinstance(offsets, dict) or not offsets or not all(map(_NUMBER.fullmatch, offsets)):
            raise rejected
        if any(type(offset) is not int or not 0 <= offset < 2**63 for offset in offsets.values()):
            raise rejected
    return {topic: {int(partition): end for partition, end in offsets.items()} for topic, offsets in topics.items()}


def _read_starts(folder: _Folder) -> dict[str, dict[int, int]]:
    """Read the offsets at which the query began; empty if a source has not recorded them."""
    texts = [folder.read(f"sources/{number}/0") for number in folder.list_numbers("sources")]
    lines = [text.lstrip("\0").splitlines()[-1] for text in texts if text]  # a zero byte is for Spark 2.0
    return _merge_sources(folder, "sources/0/0", lines) if lines and len(lines) == len(texts) else {}


def _list_operators(folder: _Folder, *, has_watermark: bool) -> Iterator[Operator]:
    numbers = folder.list_numbers("state")
    for number in numbers:
        place = f"state/{number}"
        name = _find_operator_name(folder, place)
        stores = [store for store in folder.list_names(f"{place}/0") if not store.startswith((".", "_"))]
        stores = [store for store in stores if "." not in store]
        own = _list_fields(folder.read(f"{place}/0/_metadata/schema"))
        of_stores = [_list_fields(folder.read(f"{place}/0/{store}/_metadata/schema")) or [] for store in stores]
        fields = [field for _, field in [*(own or []), *(field for store in of_stores for field in store)]]
        timed_fields = _list_timed(fields)
        delays = [delay for field in timed_fields if (delay := _get_delay(field)) is not None]
        yield Operator(
            id=number,
            name=name,
            columns=tuple(dict.fromkeys(str(field.get("name")) for is_key, field in own or [] if is_key)),
            watermark_delay=min(delays) * 1_000 if delays else None,
            late_rule=_find_join_rule(stores, of_stores)
            if name == JOIN
            else LateRule.UNKNOWN
            if own is None
            else _find_late_rule(name, timed_fields, has_watermark=has_watermark),
            fields=tuple(_make_state_field(field, is_key=is_key) for is_key, field in own or []),
        )


def _relate_operators(operators: tuple[Operator, ...]) -> tuple[Operator, ...]:
    """Return the operators with unknown rules if one may have a watermark of its own, which the checkpoint hides.

    A deduplication passes on the watermark that it has, so a grouping behind it judges by the same one.
    """
    if len(operators) <= 1:
        return operators
    last, *earlier = operators
    is_deduplicated = [
        operator.name in DEDUPLICATIONS and operator.late_rule in {LateRule.ROW, LateRule.NEVER} for operator in earlier
    ]
    if last.name in {GROUPING, SESSIONS} and is_deduplicated == [True]:
        return operators
    return tuple(replace(operator, late_rule=LateRule.UNKNOWN) for operator in operators)


def _find_operator_name(folder: _Folder, place: str) -> str:
    text = folder.read(f"{place}/_metadata/metadata") or ""
    if "{" not in text:
        return "unknown"  # before Spark 3.5 operators have no metadata
    operator = _parse(folder, f"{place}/_metadata/metadata", text[text.index("{") :]).get("operatorInfo")
    return str(operator.get("operatorName", "unknown")) if isinstance(operator, dict) else "unknown"


def _list_fields(schema: str | None) -> list[tuple[bool, dict[str, Any]]] | None:
    """List the fields of the key and of the value of a state store, and whether they are of the key.

    None if the file is missing, cut off or of another form.
    """
    fields, place, parts = list[tuple[bool, dict[str, Any]]](), (schema or "").find(_STRUCT), 0
    while schema is not None and place >= 0:
        try:
            struct, place_after = json.JSONDecoder().raw_decode(schema, place)
        except (ValueError, RecursionError):
            return None
        columns = struct.get("fields")
        if not isinstance(columns, list) or not all(isinstance(column, dict) for column in columns):
            return None
        fields += [(parts == 0, column) for column in columns]
        parts += 1
        place = schema.find(_STRUCT, place_after)
    return fields if parts >= _PARTS else None


def _make_state_field(field: Mapping[str, Any], *, is_key: bool) -> StateField:
    kind, metadata = field.get("type"), field.get("metadata")
    return StateField(
        name=str(field.get("name")),
        type=str(kind.get("type")) if isinstance(kind, dict) else str(kind),
        nullable=field.get("nullable") is not False,
        is_key=is_key,
        is_window=isinstance(metadata, dict) and metadata.get("spark.timeWindow") is True,
        is_timed=_get_delay(field) is not None,
    )


def _get_delay(field: Mapping[str, Any]) -> int | None:
    metadata = field.get("metadata")
    delay = metadata.get("spark.watermarkDelayMs") if isinstance(metadata, dict) else None
    return delay if type(delay) is int else None


def _list_timed(fields: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [field for field in fields if _get_delay(field) is not None]


def _find_join_rule(stores: Sequence[str], schemas: Sequence[Sequence[tuple[bool, dict[str, Any]]]]) -> LateRule:
    """Find the late rule of a join: with an event time on both sides, each row is judged by its own one."""
    by_side = [
        _list_timed(
            [
                field
                for store, schema in zip(stores, schemas, strict=True)
                if store.startswith(side)
                for _, field in schema
            ]
        )
        for side in ("left", "right")
    ]
    is_by_row = all(fields and not any(isinstance(field.get("type"), dict) for field in fields) for fields in by_side)
    return LateRule.ROW if is_by_row else LateRule.UNKNOWN


def _find_late_rule(name: str, timed_fields: Sequence[Mapping[str, Any]], *, has_watermark: bool) -> LateRule:
    """Find the late rule of an operator by its name and the columns in its state that have a watermark."""
    if name == "dedupeWithinWatermark":
        return LateRule.ROW
    if name not in {GROUPING, SESSIONS, "dedupe"}:
        return LateRule.UNKNOWN
    if not timed_fields:  # without the event time in its key, a deduplication with a watermark drops late rows too
        return LateRule.UNKNOWN if name == "dedupe" and has_watermark else LateRule.NEVER
    return LateRule.WINDOW if all(isinstance(field.get("type"), dict) for field in timed_fields) else LateRule.ROW


def _parse(folder: _Folder, name: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise folder.reject(name, f"a JSON object, got `{text[:40]}`")
    return value
