"""Epochs to which a row of partial aggregates can belong."""

from hypothesis import given
from hypothesis import strategies as st

from cutover.lake.epochs.epoch_log import SPAN, find_span

SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda pair: (min(pair), max(pair))), max_size=5)


@given(SPANS, st.integers(0, 30))
def test_a_span_holds_the_epoch_and_every_file_that_holds_it(spans: list[tuple[int, int]], epoch: int) -> None:
    low, high = find_span(spans, epoch)

    around = [span for span in spans if epoch in range(span[0], span[1] + 1)]
    assert low <= epoch <= high
    assert all(low <= span_start and span_end <= high for span_start, span_end in around)
    assert around or (low, high) == (epoch, epoch)


def test_file_names_contain_the_merged_epochs() -> None:
    paths = [f"_kind=partial/{name}-w0a.parquet" for name in ("fold-3-17", "fork-0-9", "epoch-4")]

    assert [SPAN.findall(path) for path in paths] == [[("fold", "3", "17")], [("fork", "0", "9")], []]
