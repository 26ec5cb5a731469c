"""Offset ranges that are read again: few ranges that cover every span."""

import pytest

from cutover.records.reading.scan import MAX_RANGES, MERGED_GAP, OffsetSpan, plan_reads


def span(partition: int, first_offset: int, last_offset: int) -> OffsetSpan:
    return OffsetSpan(partition=partition, first_offset=first_offset, last_offset=last_offset)


def test_nothing_to_read_needs_no_read() -> None:
    assert plan_reads([]) == ()


def test_ranges_that_overlap_or_lie_near_are_read_as_one() -> None:
    assert plan_reads([span(0, 5, 9), span(0, 0, 6), span(0, 9 + MERGED_GAP, 9 + MERGED_GAP)]) == (
        {0: (0, 10 + MERGED_GAP)},
    )


def test_a_range_far_away_is_another_read_with_the_other_partitions_in_the_first() -> None:
    far = 10 * MERGED_GAP

    assert plan_reads([span(0, 0, 9), span(0, far, far), span(1, 3, 3)]) == (
        {0: (0, 10), 1: (3, 4)},
        {0: (far, far + 1)},
    )


def test_ranges_with_the_smallest_gaps_are_joined() -> None:
    far = [span(0, i * 10 * MERGED_GAP, i * 10 * MERGED_GAP) for i in range(MAX_RANGES)]
    near = span(0, 2 * MERGED_GAP, 2 * MERGED_GAP)

    ranges = plan_reads([*far, near])

    assert len(ranges) == MAX_RANGES
    assert ranges[0] == {0: (0, 2 * MERGED_GAP + 1)}


@pytest.mark.parametrize(
    ("start", "ranges"),
    [
        pytest.param(10 + MERGED_GAP, [(0, 11 + MERGED_GAP)], id="as near as can be"),
        pytest.param(11 + MERGED_GAP, [(0, 10), (11 + MERGED_GAP, 12 + MERGED_GAP)], id="one offset further"),
    ],
)
def test_near_ranges_are_read_together(start: int, ranges: list[tuple[int, int]]) -> None:
    assert plan_reads([span(0, 0, 9), span(0, start, start)]) == tuple({0: offsets} for offsets in ranges)


def test_a_span_within_another_shortens_nothing() -> None:
    assert plan_reads([span(0, 0, 20), span(0, 5, 6)]) == ({0: (0, 21)},)


@pytest.mark.parametrize(
    ("max_ranges", "ranges"),
    [
        (1, [(0, 7 * MERGED_GAP + 1)]),
        (2, [(0, 2 * MERGED_GAP + 1), (7 * MERGED_GAP, 7 * MERGED_GAP + 1)]),
        (3, [(0, 1), (2 * MERGED_GAP, 2 * MERGED_GAP + 1), (7 * MERGED_GAP, 7 * MERGED_GAP + 1)]),
        (4, [(0, 1), (2 * MERGED_GAP, 2 * MERGED_GAP + 1), (7 * MERGED_GAP, 7 * MERGED_GAP + 1)]),
    ],
)
def test_number_of_ranges_of_a_partition_is_limited(max_ranges: int, ranges: list[tuple[int, int]]) -> None:
    far = [span(0, at * MERGED_GAP, at * MERGED_GAP) for at in (0, 2, 7)]

    assert plan_reads(far, max_ranges=max_ranges) == tuple({0: offsets} for offsets in ranges)


def test_a_long_range_after_a_small_gap_is_joined_first() -> None:
    spans = [span(0, 0, 0), span(0, 3 * MERGED_GAP, 3 * MERGED_GAP), span(0, 5 * MERGED_GAP, 9 * MERGED_GAP)]

    assert plan_reads(spans, max_ranges=2) == ({0: (0, 1)}, {0: (3 * MERGED_GAP, 9 * MERGED_GAP + 1)})
