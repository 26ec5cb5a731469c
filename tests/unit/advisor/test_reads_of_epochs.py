"""Offset ranges of epochs, merged into as few reads as possible."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.reconcile.advisor.gather import Chunk, join_reads

SIZES = st.lists(st.dictionaries(st.integers(0, 2), st.tuples(st.integers(0, 1), st.integers(1, 5))), max_size=12)


def chunk(sizes: list[dict[int, tuple[int, int]]]) -> Chunk:
    """Build consecutive epochs from the gap and the number of offsets of each partition."""
    at, epochs = dict.fromkeys(range(3), 0), Chunk()
    for epoch, some in enumerate(sizes):
        offsets = {}
        for partition, (gap, size) in some.items():
            start = at[partition] + gap
            offsets[partition] = (start, start + size)
            at[partition] = start + size
        end = {partition: end for partition, (_, end) in offsets.items()}
        record = EpochRecord(
            epoch=epoch,
            run_id="r",
            topic="t",
            topic_id="i",
            cluster_id="c",
            start={},
            end=end,
            max_event={},
            watermark_before=None,
            watermark_after=None,
        )
        epochs.append((record, offsets))
    return epochs


@given(SIZES)
def test_joined_reads_hold_the_same_offsets_once(sizes: list[dict[int, tuple[int, int]]]) -> None:
    given_chunk = chunk(sizes)

    reads = join_reads(given_chunk)

    expected_offsets = [(p, o) for _, offsets in given_chunk for p, span in offsets.items() for o in range(*span)]
    read_offsets = [(p, o) for offsets in reads for p, span in offsets.items() for o in range(*span)]
    assert sorted(read_offsets) == sorted(expected_offsets)
    for partition in range(3):
        spans = [offsets[partition] for offsets in reads if partition in offsets]
        assert all(earlier[1] < later[0] for earlier, later in pairwise(spans))
