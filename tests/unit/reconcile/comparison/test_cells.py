"""Values of cells compare as the diff's own SQL does."""

from unittest.mock import Mock

import duckdb
import pytest

from cutover.reconcile.attribution.cells import are_equal, count_cells
from cutover.reconcile.comparison.layout import FLOAT_RELATIVE, Layout, SharedTable, Value

NAN, INFINITE = float("nan"), float("inf")
FLOAT = Value(name="v", exact=False, relative=FLOAT_RELATIVE)


@pytest.mark.parametrize(
    ("left_value", "right_value", "is_same"),
    [
        (1.0, 1.0 + 1e-10, True),
        (1.0, 1.0 + 1e-8, False),
        (0.0, -0.0, True),
        (NAN, NAN, True),
        (NAN, 1.0, False),
        (INFINITE, INFINITE, True),
        (INFINITE, -INFINITE, False),
        (INFINITE, 1.0, False),
        (None, None, True),
        (None, NAN, False),
    ],
)
def test_floats(left_value: float | None, right_value: float | None, *, is_same: bool) -> None:
    assert are_equal(FLOAT, left_value, right_value) is is_same
    assert are_equal(FLOAT, right_value, left_value) is is_same


def test_a_cell_counts_where_it_differs_with_or_without_what_was_late() -> None:
    rows = (
        ("(1, 2, 1, 5, 6, 5)", 2),  # both differ, and late rows make them equal
        ("(1, 1, 2, 5, 5, 5)", 1),  # late rows make one differ
        ("(1, 2, 2, 5, 6, 5)", 2),
        ("(1, 1, 1, 5, 5, 5)", 1),  # a state of its alone
    )
    layout = Layout(keys=("k",), values=(Value(name="n"), Value(name="m")), group=None, wide=frozenset())
    for values, expected in rows:
        with duckdb.connect() as connection:
            columns = "t(__b0, __v0_0, __v1_0, __b1, __v0_1, __v1_1)"
            connection.execute(f"CREATE TABLE {SharedTable.TOUCHED} AS SELECT * FROM (VALUES {values}) {columns}")  # noqa: S608 -- ours
            assert count_cells(Mock(connection=connection, layout=layout, merged=("late",))) == expected
