"""Offsets in the names of landed files, as Kafka Connect's sinks for object stores and HDFS write them.

`topic+partition+startOffset.ext` is the form of Confluent's sinks for S3, GCS and Azure, `...+endOffset.ext`, with the
last offset inclusive, that for HDFS. A name without an end only shows the first offset of its file: the number of its
records shows whether it reaches up to the next file.
"""

import gzip
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from cutover.counts import count_noun
from cutover.engine import storage
from cutover.errors import LakeError
from cutover.positions.landed_copy import LandedCopy, LandedGap, LandedPartition, list_landed_files
from cutover.positions.table_metadata import StoredFile

_NAME = re.compile(
    r"(.*/)?(?P<topic>[A-Za-z0-9._-]{1,249})\+(?P<partition>[0-9]{1,10})\+(?P<start>[0-9]{1,19})"
    r"(\+(?P<end>[0-9]{1,19}))?(?P<extension>\.[^/+]*)?"
)
_LINES = (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz", ".ndjson.gz")
_PIECE_BYTES = 1_048_576
_AVRO, _SYNC_BYTES = b"Obj\x01", 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _NamedFile:
    path: str
    start: int
    end: int | None  # exclusive; None: the name does not show it


def read_landed_names(uri: str, topics: Sequence[str]) -> LandedCopy | None:
    """Read the offsets that the names of files show; None if no file has such a name.

    Args:
        uri: A folder.
        topics: Topics that are read; empty: all.

    Raises:
        DefinitionError: The folder does not exist, or is empty.
        LakeError: The records of a file cannot be counted.
    """
    files = _group_files(list_landed_files(uri), topics)
    if not files:
        return None
    partitions = tuple(
        _make_partition(uri, topic, partition, named) for (topic, partition), named in sorted(files.items())
    )
    return LandedCopy(
        partitions=partitions,
        table_version=None,
        source=f"names of {count_noun(sum(map(len, files.values())), 'file')}",
    )


def _group_files(files: Sequence[StoredFile], topics: Sequence[str]) -> dict[tuple[str, int], list[_NamedFile]]:
    grouped = dict[tuple[str, int], list[_NamedFile]]()
    for file in files:
        match = _NAME.fullmatch(file.path)
        if match is None or (topics and match["topic"] not in topics):
            continue
        end = None if match["end"] is None else int(match["end"]) + 1
        named = _NamedFile(path=file.path, start=int(match["start"]), end=end)
        grouped.setdefault((match["topic"], int(match["partition"])), []).append(named)
    return grouped


def _make_partition(uri: str, topic: str, partition: int, files: Sequence[_NamedFile]) -> LandedPartition:
    ordered = sorted(files, key=lambda file: (file.start, file.end or 0, file.path))
    reached, open_records, duplicates = ordered[0].start, 0, 0
    gaps = list[LandedGap]()
    for file, following in zip_longest(ordered, ordered[1:]):
        if file.start > reached:
            gaps.append(LandedGap(start=reached, end=file.start))
        reached = max(reached, file.start)
        if file.end is not None:
            duplicates += max(0, min(reached, file.end) - file.start)
            reached = max(reached, file.end)
            continue
        count = _count_records(uri, file)
        if following is None:
            open_records = count
            continue
        offsets = following.start - file.start
        duplicates += max(0, count - offsets)
        if 0 < count < offsets:  # its first record is known, and of the others only how many there are
            gaps.append(LandedGap(start=file.start + 1, end=following.start, missing=offsets - count))
        elif count == 0 < offsets:
            gaps.append(LandedGap(start=file.start, end=following.start))
        reached = max(reached, following.start)
    return LandedPartition(
        topic=topic,
        partition=partition,
        first=ordered[0].start,
        next_offset=reached,
        gaps=tuple(gaps),
        duplicates=duplicates,
        open_records=open_records,
    )


def _count_records(uri: str, file: _NamedFile) -> int:
    """Count the records of a Parquet, Avro or JSON-lines file.

    Raises:
        LakeError: It is none of these, or damaged.
    """
    system, root = storage.resolve_uri(uri)
    name = file.path.lower()
    try:
        with system.open_input_file(f"{root}/{file.path}") as stream:
            if name.endswith(".parquet"):
                import pyarrow.parquet as pq  # noqa: PLC0415 -- half a second that other formats need not pay

                return int(pq.ParquetFile(stream).metadata.num_rows)
            if name.endswith(".avro"):
                return _count_avro(stream)
            if name.endswith(_LINES):
                return _count_lines(gzip.open(stream) if name.endswith(".gz") else stream)
    except (OSError, EOFError, ValueError, MemoryError) as error:
        msg = f"Copy `{uri}`: expected `{file.path}` to be whole, got: {(str(error) or 'its end').splitlines()[0]}."
        raise LakeError(msg) from error
    msg = f"Copy `{uri}`: expected Parquet, Avro or JSON lines, whose records can be counted, got `{file.path}`."
    raise LakeError(msg + "\nHint: its name does not show its last offset.")


def _count_lines(stream: Any) -> int:
    lines, last = 0, b""
    while piece := stream.read(_PIECE_BYTES):
        lines += bytes(piece).count(b"\n")
        last = bytes(piece[-1:])
    return lines + (last not in {b"", b"\n"})


def _count_avro(stream: Any) -> int:
    """Add up the counts of an Avro file's blocks.

    Source:
        Apache Avro 1.12 specification, "Object Container Files".
    """
    if stream.read(len(_AVRO)) != _AVRO:
        msg = "no Avro file"
        raise ValueError(msg)
    while entries := _read_long(stream):
        if entries < 0:
            _read_long(stream)
        for _ in range(2 * abs(entries)):  # keys and values
            _read_exactly(stream, _read_long(stream) or 0)
    _read_exactly(stream, _SYNC_BYTES)
    records = 0
    while (count := _read_long(stream)) is not None:
        _read_exactly(stream, (_read_long(stream) or 0) + _SYNC_BYTES)
        records += count
    return records


def _read_long(stream: Any) -> int | None:
    """Read a number in Avro's encoding, a zigzag varint; None at the end of the file."""
    value, shift = 0, 0
    while byte := stream.read(1):
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:  # noqa: PLR2004 -- the highest bit: another byte follows
            return int(value >> 1) ^ -int(value & 1)
        shift += 7
    if shift:
        raise EOFError
    return None


def _read_exactly(stream: Any, size: int) -> None:
    if size < 0 or len(stream.read(size)) < size:
        msg = "it is cut off"
        raise ValueError(msg)
