"""Which epoch follows another, under every mix of ends, new partitions and recorded losses."""

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cutover.lake.epochs import chain
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.epochs.next_epoch import expect_start, find_breaks, follows, next_number
from cutover.lake.epochs.offset_gaps import next_offsets
from cutover.lake.journal_rows import Loss
from tests.support.log.losses import LOSS
from tests.unit.verify.epochs import epoch

offsets = st.integers(0, 8)
positions = st.dictionaries(st.integers(0, 3), offsets, min_size=1)
losses_drawn = st.lists(
    st.builds(
        lambda partition, number, behind, topic: replace(
            LOSS, partition=partition, epoch=number, next=behind, topic_id=topic
        ),
        st.integers(0, 3),
        st.integers(2, 4),
        st.none() | offsets,
        st.sampled_from(["topic-1", "topic-2"]),
    ),
    max_size=3,
)


def after(epoch_record: EpochRecord, start: Mapping[int, int]) -> EpochRecord:
    return epoch(epoch_record.epoch + 1, start=start, end={p: offset + 1 for p, offset in start.items()})


@given(end=positions, losses=losses_drawn)
def test_epoch_at_the_expected_start_follows_and_the_log_is_asked_for_the_same_offsets(
    end: Mapping[int, int], losses: list[Loss]
) -> None:
    before = epoch(2, start=end, end=end)
    expected = expect_start(before, losses, "topic-1")

    assert next_offsets(before, losses, "topic-1") == expected
    assert follows(before, after(before, expected), losses)
    assert list(find_breaks(expected, expected)) == []
    assert set(expected) >= set(end)


@given(end=positions, start=positions, losses=losses_drawn)
def test_what_the_writer_lets_through_is_what_the_check_of_the_chain_says_of_partitions_that_are_known(
    end: Mapping[int, int], start: Mapping[int, int], losses: list[Loss]
) -> None:
    before = epoch(2, start=end, end=end)
    written = after(before, start)
    # A partition that is new is not judged by the writer, and has to start at 0 for the check.
    known = expect_start(before, losses, "topic-1")
    new = [p for p, offset in start.items() if p not in known and offset]

    is_whole = list(chain.joints("clicks", [before, written], losses)) == []

    assert is_whole == (follows(before, written, losses) and not new)
    assert follows(before, written, losses) == all(start.get(p) == offset for p, offset in known.items())


@given(end=positions, number=st.integers(0, 6))
def test_no_other_number_follows(end: Mapping[int, int], number: int) -> None:
    before = epoch(2, start=end, end=end)

    assert follows(before, epoch(number, start=end, end=end)) == (number == next_number(before))


def test_first_epoch_has_number_0_and_starts_anywhere() -> None:
    assert next_number(None) == 0
    assert follows(None, epoch(0, start={0: 7}))
    assert not follows(None, epoch(1))
