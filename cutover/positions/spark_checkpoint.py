"""Checkpoint of a Structured Streaming query: batches with their offsets and watermarks, and stateful operators.

Source: the files of Spark 3.4 to 4.2 (`OffsetSeqLog`, `CommitLog`, `OperatorStateMetadata`, `StateSchemaV2`). Spark
keeps the newest 100 batches (`spark.sql.streaming.minBatchesToRetain`). The rows of a batch are judged by the watermark
that was planned with the batch before: since Spark 3.4 a batch has two watermarks, and its own one only removes state.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pyarrow import fs

from cutover.engine import storage
from cutover.errors import LakeError

MAX_BYTES = 64 * 1024 * 1024
"""Maximum size of a file of a checkpoint."""

_VERSION = "v1"
_STRUCT = '{"type":"struct"'


class LateRule(StrEnum):
    """Which records an operator drops by the watermark that judges a batch."""

    WINDOW = "window"  # those of windows that end at or before the watermark; none in complete mode
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
class Operator:
    """One stateful operator of the query."""

    id: int
    name: str  # as Spark calls it: `stateStoreSave`, `dedupeWithinWatermark`, ...
    columns: tuple[str, ...]  # of its key in the state; empty for a join
    watermark_delay: int | None  # microseconds; None: it has no watermark
    late_rule: LateRule


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkCheckpoint:
    """What a checkpoint has recorded."""

    query_id: str
    starts: Mapping[str, Mapping[int, int]] | None  # topic -> partition -> first offset; None: not kept
    batches: tuple[Batch, ...]  # those that are kept, ascending, without a gap; at least one
    operators: tuple[Operator, ...]  # empty: the query keeps no state, so it drops nothing by a watermark

    @property
    def newest_committed(self) -> Batch | None:
        """Return the newest batch whose sink is done; None: none of those that are kept."""
        return next((batch for batch in reversed(self.batches) if batch.is_committed), None)


def read_checkpoint(uri: str) -> SparkCheckpoint:
    """Read the checkpoint of a query that reads Kafka.

    Args:
        uri: Its folder, absolute or an URI.

    Raises:
        LakeError: The folder is no checkpoint, was written by another version, lacks a file, or reads no Kafka topic.
    """
    folder = _Folder(uri)
    metadata = folder.read("metadata")
    if metadata is None:
        msg = f"Checkpoint `{uri}`: expected the folder of a Structured Streaming query, found no file `metadata`."
        raise LakeError(msg + "\nHint: it is the `checkpointLocation` of the query.")
    offsets, commits = folder.list_numbers("offsets"), set(folder.list_numbers("commits"))
    if not offsets:
        msg = f"Checkpoint `{uri}`: expected planned batches in `offsets/`, found none: the query has not begun."
        raise LakeError(msg)
    missing = sorted(set(range(offsets[0], max(offsets[-1], *commits, offsets[-1]) + 1)) - set(offsets))
    if missing:
        msg = f"Checkpoint `{uri}`: expected batches {offsets[0]} to {offsets[-1]}, `offsets/{missing[0]}` is missing."
        raise LakeError(msg)
    query_id = str(_parse(folder, "metadata", metadata).get("id", ""))
    return SparkCheckpoint(
        query_id=query_id,
        starts=_read_starts(folder),
        batches=tuple(_list_batches(folder, offsets, commits)),
        operators=tuple(_list_operators(folder)),
    )


@dataclass(frozen=True, slots=True)
class _Folder:
    uri: str

    def read(self, name: str) -> str | None:
        """Return the text of a file; None if there is none. Bytes that are no UTF-8 are replaced."""
        system, root = storage.place(self.uri)
        path = f"{root.rstrip('/')}/{name}"
        try:
            info = system.get_file_info(path)
            if not info.is_file:
                return None
            if info.size > MAX_BYTES:
                msg = f"Checkpoint `{self.uri}`: expected files of at most {MAX_BYTES:,} bytes, `{name}` is larger."
                raise LakeError(msg)
            with system.open_input_stream(path) as stream:
                return str(stream.read().decode("utf-8", "replace"))
        except OSError as error:
            msg = f"Checkpoint `{self.uri}`: `{name}` cannot be read: {error}."
            raise LakeError(msg) from error

    def list_names(self, name: str) -> list[str]:
        """Return the names in a folder below; empty if there is none."""
        system, root = storage.place(self.uri)
        selector = fs.FileSelector(f"{root.rstrip('/')}/{name}", allow_not_found=True)
        return sorted(info.base_name for info in system.get_file_info(selector))

    def list_numbers(self, name: str) -> list[int]:
        """Return the names that are whole numbers, ascending: hidden and temporary files are left out."""
        return sorted(int(found) for found in self.list_names(name) if re.fullmatch("[0-9]{1,18}", found))

    def reject(self, name: str, expected: str) -> LakeError:
        """Build the error that a file has other contents than expected."""
        return LakeError(f"Checkpoint `{self.uri}`, `{name}`: expected {expected}.")


def _list_batches(folder: _Folder, numbers: list[int], commits: set[int]) -> Iterator[Batch]:
    previous: int | None = 0 if numbers[0] == 0 else None
    for number in numbers:
        name = f"offsets/{number}"
        lines = (folder.read(name) or "").splitlines()
        if not lines or lines[0] != _VERSION:
            raise folder.reject(name, f"the version `{_VERSION}` in the first line, got `{(lines or [''])[0][:40]}`")
        if len(lines) < 3:  # noqa: PLR2004 -- version, metadata, one line a source
            raise folder.reject(name, "version, metadata and a line of offsets for each source; the file is cut off")
        metadata = _parse(folder, name, lines[1])
        try:
            watermark, planned = int(metadata["batchWatermarkMs"]) * 1_000, int(metadata["batchTimestampMs"]) * 1_000
        except (KeyError, TypeError, ValueError):
            raise folder.reject(name, "`batchWatermarkMs` and `batchTimestampMs` in the second line") from None
        yield Batch(
            number=number,
            ends=_merge(folder, name, lines[2:]),
            planned_at=planned,
            watermark=watermark,
            judged_by=previous,
            is_committed=number in commits,
        )
        previous = watermark


def _merge(folder: _Folder, name: str, lines: list[str]) -> dict[str, dict[int, int]]:
    """Merge the offsets of all sources; of a topic that two sources read, the lower ones count."""
    merged: dict[str, dict[int, int]] = {}
    for line in filter(None, lines):
        for topic, offsets in _parse_offsets(folder, name, line).items():
            known = merged.setdefault(topic, {})
            for partition, offset in offsets.items():
                known[partition] = min(offset, known.get(partition, offset))
    return merged


def _parse_offsets(folder: _Folder, name: str, line: str) -> dict[str, dict[int, int]]:
    expected = 'the offsets of Kafka topics, such as {"payments":{"0":50}}'
    try:
        topics = json.loads(line)
        offsets = {
            str(topic): {int(partition): int(offset) for partition, offset in partitions.items()}
            for topic, partitions in topics.items()
        }
    except (ValueError, AttributeError, TypeError):
        raise folder.reject(name, f"{expected}, got `{line[:60]}`") from None
    if any(type(offset) is not int for partitions in topics.values() for offset in partitions.values()):
        raise folder.reject(name, f"{expected}, got `{line[:60]}`")
    return offsets


def _read_starts(folder: _Folder) -> dict[str, dict[int, int]] | None:
    starts: dict[str, dict[int, int]] = {}
    for source in folder.list_numbers("sources"):
        name = f"sources/{source}/0"
        text = folder.read(name)
        if text is None or "{" not in text:
            return None
        starts |= _parse_offsets(folder, name, text[text.index("{") :])
    return starts or None


def _list_operators(folder: _Folder) -> Iterator[Operator]:
    for operator_id in folder.list_numbers("state"):
        place = f"state/{operator_id}"
        text = folder.read(f"{place}/_metadata/metadata") or ""
        name = str(_find_operator_name(folder, place, text))
        stores = [store for store in folder.list_names(f"{place}/0") if not store.startswith((".", "_"))]
        own = list(_list_fields(folder.read(f"{place}/0/_metadata/schema") or ""))
        of_stores = [folder.read(f"{place}/0/{store}/_metadata/schema") or "" for store in stores]
        fields = [*own, *(field for schema in of_stores for field in _list_fields(schema))]
        columns = tuple(dict.fromkeys(str(field["name"]) for is_key, field in own if is_key))
        timed = [field for _, field in fields if _get_delay(field) is not None]
        delays = [delay for field in timed if (delay := _get_delay(field)) is not None]
        yield Operator(
            id=operator_id,
            name=name,
            columns=columns,
            watermark_delay=min(delays) * 1_000 if delays else None,
            late_rule=_find_late_rule(name, timed),
        )


def _find_operator_name(folder: _Folder, place: str, text: str) -> str:
    if "{" not in text:
        return "unknown"  # before Spark 3.5 operators have no metadata
    operator = _parse(folder, f"{place}/_metadata/metadata", text[text.index("{") :]).get("operatorInfo")
    return str(operator.get("operatorName", "unknown")) if isinstance(operator, dict) else "unknown"


def _list_fields(schema: str) -> Iterator[tuple[bool, dict[str, Any]]]:
    """Yield the fields of the key and of the value in a file of state schemas, and whether they are of the key."""
    place, is_key = schema.find(_STRUCT), True
    while place >= 0:
        try:
            struct, place_after = json.JSONDecoder().raw_decode(schema, place)
        except ValueError:
            return
        for field in struct["fields"]:
            yield is_key, field
        is_key = not is_key
        place = schema.find(_STRUCT, place_after)


def _get_delay(field: Mapping[str, Any]) -> int | None:
    delay = field.get("metadata", {}).get("spark.watermarkDelayMs")
    return delay if type(delay) is int else None


def _find_late_rule(name: str, timed: Sequence[Mapping[str, Any]]) -> LateRule:
    """Find the late rule of an operator by its name and the columns in its state that have a watermark."""
    if name == "dedupeWithinWatermark":
        return LateRule.ROW
    if name == "dedupe":  # without the event time in its key it drops late rows too, if the query has a watermark
        return LateRule.ROW if timed else LateRule.UNKNOWN
    if name not in {"stateStoreSave", "sessionWindowStateStoreSaveExec"}:
        return LateRule.UNKNOWN
    if not timed:
        return LateRule.NEVER
    return LateRule.WINDOW if all(isinstance(field["type"], dict) for field in timed) else LateRule.ROW


def _parse(folder: _Folder, name: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise folder.reject(name, f"a JSON object, got `{text[:40]}`")
    return value
