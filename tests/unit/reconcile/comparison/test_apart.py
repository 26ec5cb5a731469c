"""Distances between the values of a column, for constructed rows."""

import pytest

from cutover.engine import queries
from cutover.reconcile.comparison import diff
from cutover.reconcile.comparison.diff import Pair
from cutover.reconcile.result.finding import Apart

PAIR = Pair(name="amount", expected="b", actual="s", differs="b IS DISTINCT FROM s")


def measure(rows: str) -> tuple[Apart, ...]:
    with queries.open_duckdb() as connection:
        return diff.measure_distances(connection, f"(SELECT * FROM (VALUES {rows}) t(b, s))", [PAIR])  # noqa: S608 -- ours


def test_sizes_and_directions_are_those_of_the_rows_that_differ_with_a_number_on_both_sides() -> None:
    (distance,) = measure("(1.0, 4.0), (5.0, 4.0), (7.0, 7.0), (NULL, 3.0), (2.0, 'infinity'::DOUBLE)")

    assert distance == Apart(column="amount", rows=2, above=1, mean=1.0, p50=1.0, p90=3.0, p99=3.0, largest=3.0)


@pytest.mark.parametrize(("batch", "stream", "expected_above"), [(1, 2, 1), (2, 1, 0)])
def test_decimals_too_large_for_a_double_have_a_direction_all_the_same(
    batch: int, stream: int, expected_above: int
) -> None:
    (distance,) = measure(f"({10**30 + batch}::DECIMAL(38, 0), {10**30 + stream}::DECIMAL(38, 0))")

    assert (distance.rows, distance.above, distance.largest) == (1, expected_above, 0.0)


def test_a_column_that_differs_nowhere_with_two_numbers_is_left_out() -> None:
    assert measure("(1, 1), (NULL, 2)") == ()
