from hypothesis import given
from hypothesis import strategies as st

from cutover.reconcile.audit.run import MOST_EPOCHS, draw_replay, whole
from cutover.records.reading.scan import Offsets

SPANS = st.dictionaries(
    st.integers(0, 5), st.tuples(st.integers(0, 50), st.integers(1, 90)).map(lambda p: (p[0], p[0] + p[1])), min_size=1
)


@given(span=SPANS, number=st.integers(1, 9), seed=st.integers(0, 10**6))
def test_replay_reads_every_offset_once_and_in_order(span: Offsets, number: int, seed: int) -> None:
    replay = draw_replay(span, number, seed)

    for partition, (start, end) in span.items():
        read = [epoch[partition] for epoch in replay.epochs if partition in epoch]
        assert [offset for position, next_ in read for offset in range(position, next_)] == list(range(start, end))
    assert len(replay.epochs) <= MOST_EPOCHS
    assert all(start < next_ for epoch in replay.epochs for start, next_ in epoch.values())


def test_seed_and_number_determine_the_replay() -> None:
    span = {0: (0, 100), 1: (20, 70)}

    assert draw_replay(span, 1, 7) == draw_replay(span, 1, 7)
    assert draw_replay(span, 1, 7) != draw_replay(span, 2, 7) != draw_replay(span, 1, 8)


def test_first_replay_is_one_epoch() -> None:
    assert whole({0: (3, 9)}).epochs == ({0: (3, 9)},)
