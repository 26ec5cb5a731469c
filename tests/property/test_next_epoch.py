"""Successors of an epoch, under every mix of ends, new partitions and recorded losses."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.lake.epochs.delivery import (
    compute_next_epoch,
    describe_offset_breaks,
    expect_start,
    find_breaks,
    follows,
    next_offsets,
)
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.journal_rows import Loss
from tests.support.log.losses import LOSS
from tests.unit.verify.epochs import epoch

pytestmark = pytest.mark.quick

offsets = st.integers(0, 8)
positions = st.dictionaries(st.integers(0, 3), offsets, min_size=1)
losses_drawn = st.lists(
    st.builds(
        lambda partition, number, next_offset, topic: replace(
            LOSS, partition=partition, epoch=number, next=next_offset, topic_id=topic
        ),
        st.integers(0, 3),
        st.integers(2, 4),
        st.none() | offsets,
        st.sampled_from(["topic-1", "topic-2"]),
    ),
    max_size=3,
)


def following_epoch(epoch_record: EpochRecord, start: Mapping[int, int]) -> EpochRecord:
    return epoch(epoch_record.epoch + 1, start=start, end={p: offset + 1 for p, offset in start.items()})


@given(end=positions, losses=losses_drawn)
def test_epoch_at_the_expected_start_follows_and_the_log_is_asked_for_the_same_offsets(
    end: Mapping[int, int], losses: list[Loss]
) -> None:
    previous = epoch(2, start=end, end=end)
    expected = expect_start(previous, losses, "topic-1")

    assert next_offsets(previous, losses, "topic-1") == expected
    assert follows(previous, following_epoch(previous, expected), losses)
    assert list(find_breaks(expected, expected)) == []
    assert set(expected) >= set(end)


@given(end=positions, start=positions, losses=losses_drawn)
def test_what_the_writer_lets_through_is_what_the_check_of_the_chain_says_of_partitions_that_are_known(
    end: Mapping[int, int], start: Mapping[int, int], losses: list[Loss]
) -> None:
    previous = epoch(2, start=end, end=end)
    following = following_epoch(previous, start)
    # A partition that is new is not judged by the writer, and has to start at 0 for the check.
    expected_offsets = expect_start(previous, losses, "topic-1")
    new = [p for p, offset in start.items() if p not in expected_offsets and offset]

    is_whole = list(describe_offset_breaks("clicks", [previous, following], losses)) == []

    assert is_whole == (follows(previous, following, losses) and not new)
    assert follows(previous, following, losses) == all(start.get(p) == offset for p, offset in expected_offsets.items())


@given(end=positions, number=st.integers(0, 6))
def test_no_other_number_follows(end: Mapping[int, int], number: int) -> None:
    previous = epoch(2, start=end, end=end)

    assert follows(previous, epoch(number, start=end, end=end)) == (number == compute_next_epoch(previous))


def test_first_epoch_has_number_0_and_starts_anywhere() -> None:
    assert compute_next_epoch(None) == 0
    assert follows(None, epoch(0, start={0: 7}))
    assert not follows(None, epoch(1))
