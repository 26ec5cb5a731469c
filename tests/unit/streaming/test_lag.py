"""Unread offsets, and epochs that start without a pause."""

import pytest

from cutover.lake.epochs.delivery import count_unread
from cutover.streaming.microbatch.epoch_record import is_behind


@pytest.mark.parametrize(
    ("high", "read", "expected"),
    [
        ({}, {}, 0),
        ({0: 10, 1: 7}, {0: 4, 1: 7}, 6),
        ({0: 10, 1: 7}, {0: 4}, 13),  # nothing was read of a new partition
        ({0: 10, 1: 7}, {0: 12, 1: 6}, 1),  # what one has read beyond an older end makes up for nothing
    ],
)
def test_unread_offsets_are_those_up_to_the_observed_ends(
    high: dict[int, int], read: dict[int, int], expected: int
) -> None:
    assert count_unread(high, read) == expected


@pytest.mark.parametrize(("read", "expected"), [(0, False), (49, False), (50, True), (51, True), (100, True)])
def test_an_epoch_is_full_from_half_of_its_limit(read: int, expected: bool) -> None:
    assert is_behind(read, 100) is expected
