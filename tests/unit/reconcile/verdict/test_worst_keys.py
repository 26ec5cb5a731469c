"""Order of the worst keys in a report: most rows that differ, then the largest difference."""

from unittest.mock import Mock

import duckdb

from cutover.definition import Count, Fixed, Max, Pipeline, Sum, Topic
from cutover.definition.measures.kinds import Measure
from cutover.reconcile.comparison.layout import Layout, SharedTable, make_default_comparison
from cutover.reconcile.report.sections import worst_keys
from cutover.reconcile.result.finding import WorstKey

ROWS = "('a', 10, 7), ('a', NULL, 5), ('b', 3, NULL), ('c', 1, 9)"  # shop, streaming, batch


def find(measure: Measure, rows: str = ROWS) -> tuple[WorstKey, ...]:
    pipeline = Pipeline(
        name="sales",
        source=Topic(name="sales", schema="shop string, amount bigint, at timestamp NOT NULL", event_time="at"),
        key=("shop",),
        window=Fixed(hours=1),
        measures={"most": Max("amount"), "total": measure},
    )
    values = (make_default_comparison("most", "BIGINT"), make_default_comparison("total", "BIGINT"))
    layout = Layout(keys=("window_start", "shop"), values=values, group="window_start", wide=frozenset())
    with duckdb.connect() as connection:
        connection.execute(
            f"CREATE TEMP TABLE {SharedTable.TOUCHED} AS SELECT shop, 0 AS __v0_0, 0 AS __b0, __v0_1, __b1"  # noqa: S608 -- ours
            f" FROM (VALUES {rows}) t(shop, __v0_1, __b1)"
        )
        return worst_keys(Mock(connection=connection, layout=layout), pipeline)


def test_keys_are_sorted_by_rows_and_difference_with_missing_rows_as_zero() -> None:
    worst_keys = [
        (worst_key.key["shop"], worst_key.rows, worst_key.measure, worst_key.difference)
        for worst_key in find(Sum("amount"))
    ]

    assert worst_keys == [("a", 2, "total", 10 - 7 - 5), ("c", 1, "total", 1 - 9), ("b", 1, "total", 3)]


def test_counts_add_up_too() -> None:
    assert [worst_key.difference for worst_key in find(Count(), "('a', 2, 3)")] == [2 - 3]


def test_without_a_measure_that_adds_up_keys_come_by_their_rows_and_then_by_name() -> None:
    worst_keys = [
        (worst_key.key["shop"], worst_key.rows, worst_key.measure, worst_key.difference)
        for worst_key in find(Max("amount"))
    ]

    assert worst_keys == [("a", 2, None, None), ("b", 1, None, None), ("c", 1, None, None)]
