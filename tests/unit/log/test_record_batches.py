"""Record batches as their headers describe them: which offsets hold no record of any kind."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.log.record_batches import (
    HEADER_BYTES,
    MissingRecords,
    RecordBatch,
    exclude_ranges,
    exclude_recorded,
    find_missing_records,
    format_missing,
    parse_headers,
)

BODY = 40


def batch_bytes(start: int, covered: int, records: int, *, magic: int = 2, body: int = BODY) -> bytes:
    """Build a batch of a fetch response; header fields that are never parsed are zero."""
    header = bytearray(HEADER_BYTES)
    struct.pack_into(">qi", header, 0, start, HEADER_BYTES - 12 + body)
    header[16] = magic
    struct.pack_into(">i", header, 23, covered - 1)
    struct.pack_into(">i", header, 57, records)
    return bytes(header) + b"x" * body


def missing(*gaps: tuple[int, int, int]) -> tuple[MissingRecords, ...]:
    return tuple(MissingRecords(0, *gap) for gap in gaps)


def test_headers_give_bounds_and_counts() -> None:
    response = batch_bytes(0, 50, 50) + batch_bytes(50, 1, 1) + batch_bytes(60, 10, 3)

    batches, consumed = parse_headers(response, 0)

    assert batches == [RecordBatch(0, 50, 50), RecordBatch(50, 51, 1), RecordBatch(60, 70, 3)]
    assert consumed == len(response)


@pytest.mark.parametrize("size", [HEADER_BYTES, 100, 150, 4_096])
def test_a_response_is_read_in_pieces_of_any_size(size: int) -> None:
    response = b"".join(batch_bytes(10 * n, 10, 10 - n, body=37 * n) for n in range(9))
    batches, position = list[RecordBatch](), 0
    while position < len(response):
        some, position = parse_headers(response[position : position + size], position)
        batches += some

    assert batches == [RecordBatch(10 * n, 10 * n + 10, 10 - n) for n in range(9)]


def test_truncated_header_is_left_for_the_next_response() -> None:
    full_batch = batch_bytes(0, 5, 5)

    assert parse_headers(full_batch + batch_bytes(5, 5, 5)[: HEADER_BYTES - 1], 0) == (
        [RecordBatch(0, 5, 5)],
        len(full_batch),
    )


def test_message_of_an_older_format_is_one_record() -> None:
    assert parse_headers(batch_bytes(7, 3, 0, magic=1), 0)[0] == [RecordBatch(7, 8, 1)]


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([(0, 50, 50), (50, 51, 1), (51, 100, 49)], ()),
        ([(0, 50, 50), (60, 100, 40)], ((50, 60, 10),)),
        ([(0, 50, 5), (50, 51, 1), (51, 100, 49)], ((0, 50, 45),)),
        ([(0, 50, 5), (50, 100, 0)], ((0, 100, 95),)),
        ([(20, 100, 80)], ((0, 20, 20),)),
        ([(0, 40, 40)], ((40, 100, 60),)),
        ([], ((0, 100, 100),)),
        ([(0, 150, 150)], ()),
        ([(0, 50, 50), (50, 150, 30)], ((50, 100, 50),)),
        ([(0, 50, 50), (60, 70, 9), (80, 100, 20)], ((50, 80, 21),)),
    ],
    ids=[
        "a transaction and its marker",
        "a batch is missing",
        "a batch was thinned out",
        "all of a batch and most of another",
        "begins late",
        "ends early",
        "nothing is left",
        "a batch reaches beyond",
        "a thinned batch reaches beyond",
        "neighbours are joined",
    ],
)
def test_offsets_without_a_record_are_named(
    batches: list[tuple[int, int, int]], expected: tuple[tuple[int, int, int], ...]
) -> None:
    missing_records = find_missing_records(0, (RecordBatch(*batch) for batch in batches), (0, 100))

    assert missing_records == missing(*expected)


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    losses=st.lists(st.integers(0, 9), min_size=12, max_size=12),
    bounds=st.tuples(st.integers(0, 100), st.integers(0, 100)),
)
def test_records_are_missing_exactly_if_a_batch_of_the_range_is_incomplete(
    sizes: list[int], losses: list[int], bounds: tuple[int, int]
) -> None:
    batches, at = list[RecordBatch](), 0
    for size, loss in zip(sizes, losses, strict=False):
        batches.append(RecordBatch(at, at + size, max(0, size - loss)))
        at += size
    start, end = sorted(min(edge, at) for edge in bounds)

    missing_records = find_missing_records(0, batches, (start, end))

    spoilt = [
        b
        for b in batches
        if b.first_offset < end and b.next_offset > start and b.records < b.next_offset - b.first_offset
    ]
    assert bool(missing_records) is bool(spoilt and start < end)
    assert all(
        start <= gap.first_offset < gap.next_offset <= end and 0 < gap.missing <= gap.next_offset - gap.first_offset
        for gap in missing_records
    )


def test_recorded_gaps_are_not_reported_again() -> None:
    gaps = (*missing((3, 9, 4), (20, 30, 10)), MissingRecords(1, 3, 9, 6))

    assert exclude_recorded(gaps, {0: [(0, 9), (25, 40)]}) == gaps[1:]


@pytest.mark.parametrize(
    ("excluded", "expected"),
    [
        ([], ((10, 20, 4),)),
        ([(0, 10), (20, 30)], ((10, 20, 4),)),
        ([(5, 25)], ()),
        ([(15, 20), (10, 15)], ()),
        ([(10, 18)], ((18, 20, 2),)),
        ([(13, 15), (12, 14)], ((10, 12, 2), (15, 20, 4))),
        ([(19, 30), (0, 11)], ((11, 19, 4),)),
    ],
    ids=["none", "beside", "around", "two that meet", "its beginning", "inside", "both ends"],
)
def test_parts_of_a_gap_outside_some_ranges_remain(
    excluded: list[tuple[int, int]], expected: tuple[tuple[int, int, int], ...]
) -> None:
    gap, other = missing((10, 20, 4)), MissingRecords(1, 10, 20, 4)

    assert exclude_ranges((*gap, other), {0: excluded}) == (*missing(*expected), other)


def test_message_names_topic_partition_and_offsets() -> None:
    gaps = [MissingRecords(2, 10 * n, 10 * n + 5, 1_003) for n in range(5)]

    text = format_missing("clicks", gaps)

    assert text.startswith("Topic clicks, partition 2: 1,003 of the offsets 0 to 4 hold no record")
    assert "offsets 20 to 24" in text
    assert text.endswith("and 2 more ranges")
