"""Values with more than their share of the rows that differ: by how much, from how few rows on, and in which order."""

from collections.abc import Iterable

import pytest

from cutover.engine import queries
from cutover.reconcile.comparison import digests
from cutover.reconcile.comparison.digests import SegmentColumn
from cutover.reconcile.result.finding import KeySegment

Rows = Iterable[tuple[str | None, int]]  # value, rows of it


def find(different: Rows, all_rows: Rows, columns: tuple[str, ...] = ("shop",)) -> tuple[KeySegment, ...]:
    with queries.open_duckdb() as connection:
        for name, rows in (("different", different), ("every", all_rows)):
            connection.execute(f"CREATE TEMP TABLE {name} (shop VARCHAR)")
            for value, count in rows:
                connection.execute(f"INSERT INTO {name} SELECT ? FROM range({count})", [value])  # noqa: S608 -- ours
        column = SegmentColumn(value="shop", all_values="(SELECT shop AS v, 1 AS n FROM every)")
        compared = sum(count for _, count in all_rows)
        return digests.find_over_represented_values(
            connection, dict.fromkeys(columns, column), "different", str(compared)
        )


@pytest.mark.parametrize(("rows", "expected"), [(4, 0), (5, 1)])
def test_fewer_than_five_rows_have_no_segment(rows: int, expected: int) -> None:
    assert len(find([("a", rows)], [("a", rows), ("b", 1_000)])) == expected
    assert len(find([("a", rows), ("c", 4)], [("a", rows), ("b", 1_000), ("c", 4)])) == expected


def test_a_lift_is_the_share_of_the_rows_that_differ_over_that_of_all_rows() -> None:
    key_segments = find([("a", 6), (None, 9), ("b", 5)], [("a", 20), (None, 40), ("b", 340)])

    assert key_segments == (
        KeySegment(column="shop", value="a", different=6, rows=20, lift=round(6 / 20 / (20 / 400), 2)),
        KeySegment(column="shop", value=None, different=9, rows=40, lift=round(9 / 20 / (40 / 400), 2)),
    )


@pytest.mark.parametrize(
    ("all_rows", "expected"),
    [
        # Wilson's lower end of 10 of 20 at 1 % (2.3263 standard deviations) is 0.26926; `a` has 100 of these rows.
        pytest.param(372, True, id="a share of 0.26882 lies below"),
        pytest.param(371, False, id="a share of 0.26954 does not"),
    ],
)
def test_a_value_is_named_if_its_share_of_all_lies_below_the_lower_end_for_the_rows_that_differ(
    all_rows: int, *, expected: bool
) -> None:
    other_rows = [(f"s{n}", 1) for n in range(10)]
    key_segments = find([("a", 10), *other_rows], [("a", 100), ("b", all_rows - 110), *other_rows])

    assert bool(key_segments) is expected


@pytest.mark.parametrize(("all_rows", "of_one", "of_two"), [(390, 1, 0), (400, 1, 2)])
def test_significance_is_corrected_for_the_number_of_values(all_rows: int, of_one: int, of_two: int) -> None:
    other_rows = [(f"s{n}", 1) for n in range(10)]
    different, all_counts = [("a", 10), *other_rows], [("a", 100), ("b", all_rows - 110), *other_rows]

    assert len(find(different, all_counts)) == of_one
    assert len(find(different, all_counts, ("shop", "again"))) == of_two


def test_the_largest_lift_comes_first_then_more_rows_then_names_and_twenty_are_shown() -> None:
    different = [*((f"s{n:02}", 5) for n in range(22)), ("most", 20), ("lift", 5)]
    all_rows = [*((f"s{n:02}", 10) for n in range(22)), ("most", 40), ("lift", 5), ("rest", 100_000)]

    key_segments = find(different, all_rows)

    assert [segment.value for segment in key_segments] == ["lift", "most", *(f"s{n:02}" for n in range(18))]


@pytest.mark.parametrize("few", [0, 3, 100])
def test_segments_are_the_same_for_any_way_of_counting(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: Rows = [("a", 40), (None, 9), ("b", 5), ("c", 30)]
    all_rows: Rows = [("a", 50), (None, 9), ("b", 5), ("c", 900), ("d", 1_500)]
    usual = find(rows, all_rows)
    monkeypatch.setattr(digests, "FEW", few)

    assert find(rows, all_rows) == usual
    assert [segment.value for segment in usual] == [None, "b", "a"]


def test_each_column_is_examined() -> None:
    key_segments = find([("a", 9)], [("a", 9), ("b", 500)], ("shop", "again"))

    assert [(segment.column, segment.value) for segment in key_segments] == [("again", "a"), ("shop", "a")]
