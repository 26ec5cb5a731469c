"""Headers of the record batches of a Kafka log: the offsets that each batch covers, and the number of its records.

A consumer cannot distinguish why an offset has no record: control records and aborted records occupy offsets, and so do
records that compaction has removed. The headers can. In a log without losses the batches, including control batches,
are contiguous, and each has as many records as offsets. Compaction keeps the bounds of a batch and lowers its count, or
removes the whole batch.

Source:
    Apache Kafka documentation, 5.3 Messages: record batch, and its note on compaction and `lastOffsetDelta`.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from cutover.counts import count_noun
from cutover.log.topic_partitions import format_partition

HEADER_BYTES = 61
"""Length of a header of message format 2, the longest one."""

_LENGTH_ENDS, _MAGIC, _LAST_OFFSET_DELTA, _COUNT = 12, 16, 23, 57  # positions in a header
_MAX_DESCRIBED = 3  # ranges in a message

OffsetRange = tuple[int, int]
"""Offsets `[first, next)` of one partition."""


class RecordBatch(NamedTuple):
    """Offsets `[first_offset, next_offset)` of a batch, and the number of its records."""

    first_offset: int
    next_offset: int
    records: int


class MissingRecords(NamedTuple):
    """Offsets `[first_offset, next_offset)` of one partition, of which `missing` have no record of any kind."""

    partition: int
    first_offset: int
    next_offset: int
    missing: int


def parse_headers(piece: bytes, position: int) -> tuple[list[RecordBatch], int]:
    """Parse the headers in a piece of a fetch response.

    Args:
        piece: Bytes of the response, starting with a header.
        position: Position of the piece in the response.

    Returns:
        The batches whose headers are complete, and the position of the next header. It may be after the end of the
        piece, since batches are longer than their headers.
    """
    batches, at = [], 0
    while at + HEADER_BYTES <= len(piece):
        first_offset, length = struct.unpack_from(">qi", piece, at)
        if piece[at + _MAGIC] < 2:  # noqa: PLR2004 -- older formats: a message is its own batch, and has no transactions
            batches.append(RecordBatch(first_offset, first_offset + 1, 1))
        else:
            (delta,) = struct.unpack_from(">i", piece, at + _LAST_OFFSET_DELTA)
            (count,) = struct.unpack_from(">i", piece, at + _COUNT)
            batches.append(RecordBatch(first_offset, first_offset + delta + 1, count))
        at += _LENGTH_ENDS + length
    return batches, position + at


def find_missing_records(
    partition: int, batches: Iterable[RecordBatch], offset_range: OffsetRange
) -> tuple[MissingRecords, ...]:
    """Find the offsets of a range that have neither a record nor a control record; adjacent ranges are merged.

    Args:
        partition: Number of the partition.
        batches: All batches of the log in the range, ascending.
        offset_range: The range. If a batch with missing records is only partly in it, that part counts as missing.
    """
    missing_records: list[MissingRecords] = []
    for start, end, count in _list_gaps(batches, offset_range):
        if missing_records and missing_records[-1].next_offset == start:
            missing_records[-1] = MissingRecords(
                partition, missing_records[-1].first_offset, end, missing_records[-1].missing + count
            )
        else:
            missing_records.append(MissingRecords(partition, start, end, count))
    return tuple(missing_records)


def _list_gaps(batches: Iterable[RecordBatch], offset_range: OffsetRange) -> Iterator[tuple[int, int, int]]:
    """Yield first offset, next offset and number of missing records of each gap."""
    at, end = offset_range
    for batch in batches:
        if batch.first_offset >= end:
            break
        if batch.first_offset > at:
            yield at, batch.first_offset, batch.first_offset - at
        start, end_in_range = max(at, batch.first_offset), min(batch.next_offset, end)
        lacking = batch.next_offset - batch.first_offset - batch.records
        if lacking > 0 and start < end_in_range:
            yield start, end_in_range, min(lacking, end_in_range - start)
        at = max(at, batch.next_offset)
    if at < end:
        yield at, end, end - at


def exclude_recorded(
    missing: Iterable[MissingRecords], known_losses: Mapping[int, Sequence[OffsetRange]]
) -> tuple[MissingRecords, ...]:
    """Return the missing records that are not completely in a known loss.

    Args:
        missing: Missing records of a log.
        known_losses: Partition to ranges that are known to be lost.
    """

    def is_recorded(gap: MissingRecords) -> bool:
        return any(
            start <= gap.first_offset and gap.next_offset <= end for start, end in known_losses.get(gap.partition, ())
        )

    return tuple(gap for gap in missing if not is_recorded(gap))


def exclude_ranges(
    missing: Iterable[MissingRecords], excluded: Mapping[int, Sequence[OffsetRange]]
) -> tuple[MissingRecords, ...]:
    """Return the parts of gaps that are outside some ranges.

    Args:
        missing: Missing records of a log.
        excluded: Partition to ranges, in any order; they may overlap.

    Returns:
        The remaining parts, ascending within each gap. The number of missing records per part is unknown, so the
        maximum is used.
    """
    remaining = list[MissingRecords]()
    for gap in missing:
        at = gap.first_offset
        for start, end in (*sorted(excluded.get(gap.partition, ())), (gap.next_offset, gap.next_offset)):
            part = min(start, gap.next_offset)
            if part > at:
                remaining.append(MissingRecords(gap.partition, at, part, min(gap.missing, part - at)))
            at = max(at, end)
    return tuple(remaining)


def format_missing(log: str, missing: Sequence[MissingRecords]) -> str:
    """Describe the offsets of a log whose records are missing; only the first ranges are listed."""
    descriptions = [
        f"{format_partition(log, gap.partition)}: {gap.missing:,} of the offsets {gap.first_offset} to "
        f"{gap.next_offset - 1} hold no record any more"
        for gap in missing[:_MAX_DESCRIBED]
    ]
    more = len(missing) - len(descriptions)
    text = "; ".join([*descriptions, *([f"and {count_noun(more, 'more range')}"] if more else [])])
    return text[0].upper() + text[1:]
