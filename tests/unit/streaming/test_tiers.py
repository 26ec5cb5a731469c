from hypothesis import given
from hypothesis import strategies as st

from cutover.streaming.compaction.compactor import due
from cutover.streaming.sink.files import File


def partial(first_epoch: int, last_epoch: int, size: int = 1) -> File:
    return File(
        path=f"{first_epoch}-{last_epoch}", kind="partial", first_epoch=first_epoch, last_epoch=last_epoch, size=size
    )


def spans(groups: list[list[File]]) -> list[tuple[int, int]]:
    return [(group[0].first_epoch, group[-1].last_epoch) for group in groups]


SINGLES = [partial(e, e) for e in range(20)]


def test_nothing_is_due_before_the_first_tier_is_full() -> None:
    assert due(SINGLES[:3], newest=20, pins=(), fan_in=4, keep=0) == []


def test_full_first_tier_becomes_one_file() -> None:
    assert spans(due(SINGLES[:4], newest=20, pins=(), fan_in=4, keep=0)) == [(0, 3)]


def test_newest_epochs_are_left_alone() -> None:
    assert spans(due(SINGLES, newest=19, pins=(), fan_in=4, keep=10)) == [(0, 9)]


def test_no_group_holds_epochs_on_both_sides_of_a_pin() -> None:
    assert spans(due(SINGLES, newest=19, pins=(6,), fan_in=4, keep=0)) == [(0, 6), (7, 19)]


def test_ledger_is_merged_across_a_pin_since_its_rows_keep_their_epoch() -> None:
    ledger = [File(path=str(e), kind="ledger", first_epoch=e, last_epoch=e, size=1) for e in range(8)]

    assert spans(due(ledger, newest=8, pins=(3,), fan_in=4, keep=0)) == [(0, 7)]


def test_ten_files_of_a_tier_become_one_of_the_next() -> None:
    folded = [partial(4 * i, 4 * i + 3) for i in range(10)]

    assert spans(due(folded, newest=50, pins=(), fan_in=4, keep=0)) == [(0, 39)]


def test_nine_files_of_a_tier_stay() -> None:
    folded = [partial(4 * i, 4 * i + 3) for i in range(9)]

    assert due(folded, newest=50, pins=(), fan_in=4, keep=0) == []


def test_file_folded_across_a_later_pin_is_not_merged() -> None:
    files = [partial(0, 5), *(partial(e, e) for e in range(6, 12))]

    assert spans(due(files, newest=12, pins=(3,), fan_in=4, keep=0)) == [(6, 11)]


def test_group_holds_no_more_bytes_than_one_fold_may_read() -> None:
    files = [partial(e, e, 40) for e in range(8)]

    assert spans(due(files, newest=8, pins=(), fan_in=4, keep=0, max_bytes=100)) == [(0, 1), (2, 3), (4, 5), (6, 7)]


def test_large_file_is_left_alone_and_its_neighbours_are_not_merged_across_it() -> None:
    files = [*(partial(e, e) for e in range(4)), partial(4, 4, 50), *(partial(e, e) for e in range(5, 9))]

    assert spans(due(files, newest=9, pins=(), fan_in=4, keep=0, max_bytes=100)) == [(0, 3), (5, 8)]


def test_folding_terminates_even_if_it_saves_little() -> None:
    files = [partial(4 * i, 4 * i + 3, 30 + i % 20) for i in range(200)]
    rounds = 0

    while groups := due(files, newest=800, pins=(), fan_in=4, keep=0, max_bytes=100):
        replaced = {file for group in groups for file in group}
        merged_files = [partial(g[0].first_epoch, g[-1].last_epoch, sum(f.size for f in g) * 4 // 5) for g in groups]
        files, rounds = (
            sorted([f for f in files if f not in replaced] + merged_files, key=lambda f: f.first_epoch),
            rounds + 1,
        )

    assert rounds <= 3
    assert all(len(g) > 1 for g in groups)
    assert [f.first_epoch for f in files] == [0, *(f.last_epoch + 1 for f in files[:-1])]


@given(
    spans=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 60)), max_size=40),
    pins=st.lists(st.integers(0, 400), max_size=4),
)
def test_pins_only_remove_folds(spans: list[tuple[int, int]], pins: list[int]) -> None:
    files, next_epoch = [], 0
    for span, size in spans:
        files.append(partial(next_epoch, next_epoch + span - 1, size))
        next_epoch += span

    free = due(files, newest=next_epoch, pins=(), fan_in=4, keep=0, max_bytes=100)
    pinned = due(files, newest=next_epoch, pins=pins, fan_in=4, keep=0, max_bytes=100)

    assert free or not pinned
    assert all(sum(f.size for f in group) <= 100 and len(group) > 1 for group in (*free, *pinned))
    assert not any(file.first_epoch <= pin < file.last_epoch for group in pinned for pin in pins for file in group)
    assert not any(group[0].first_epoch <= pin < group[-1].last_epoch for group in pinned for pin in pins)
