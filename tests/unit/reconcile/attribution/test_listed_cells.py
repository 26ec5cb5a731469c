"""Cells listed in a report: rows, order, and steps from the stream's value to batch's."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import duckdb
import pytest

from cutover.engine import queries
from cutover.reconcile.attribution import cells
from cutover.reconcile.comparison.layout import Layout, SharedTable, Value
from cutover.reconcile.result.finding import CellStep, Difference
from tests.support.comparison.open_sides import make_sides
from tests.unit.reconcile.attribution.indexed import HOUR

VALUES = (
    Value(name="clicks", additive=True),
    Value(name="name"),
    Value(name="name__state"),
    Value(name="_n"),
)
LAYOUT = Layout(keys=("window_start", "who"), values=VALUES, group="window_start", wide=frozenset())
SAME = ("x", "x", "x", "x")


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a comparison without rows; late rows of `a` are in the ledger, future ones of `f` and `a`, of hour 0."""
    with queries.open_duckdb() as database:
        stages = ", ".join(
            f"__b{i} {kind}, __v0_{i} {kind}, __v1_{i} {kind}, __v2_{i} {kind}"
            for i, kind in enumerate(("BIGINT", "VARCHAR", "VARCHAR", "BIGINT"))
        )
        database.execute(
            f"CREATE TEMP TABLE {SharedTable.TOUCHED} (window_start TIMESTAMPTZ, who VARCHAR, __copy BIGINT,"
            f" _kind VARCHAR, _explained INTEGER, {stages})"
        )
        database.execute(
            "CREATE TEMP TABLE ledger_keys AS SELECT make_timestamptz(0) AS window_start, *"
            " FROM (VALUES ('a', 'late'), ('f', 'future'), ('a', 'future')) t(who, _class)"
        )
        yield database


def insert_row(
    connection: duckdb.DuckDBPyConnection,
    key: str | None,
    clicks: Sequence[int | None],
    *other_values: Sequence[Any],
    **at: Any,
) -> None:
    """Insert a row with batch's and the stream's value, and the value after late and after future records."""
    place: dict[str, Any] = {"hour": 0, "copy": 1, "kind": "changed", "explained": 1} | at
    hour, *kind = place.values()
    value_stages = [clicks, *other_values, *(SAME, SAME, (1, 1, 1, 1))[len(other_values) :]]
    row = [None if hour is None else hour * HOUR, key, *kind, *(value for of in value_stages for value in of)]
    marks = ", ".join("?" for _ in row[1:])
    connection.execute(f"INSERT INTO {SharedTable.TOUCHED} VALUES (make_timestamptz(?), {marks})", row)  # noqa: S608 -- ours


def difference(**changes: Any) -> Difference:
    values: dict[str, Any] = {
        "window_start": "1970-01-01T00:00:00Z", "key": {"who": "a"}, "measure": "clicks", "kind": "changed",
        "streaming": 2, "batch": 3, "difference": -1, "cause": "late",
        "steps": (CellStep(cause="late", before=2, after=3),),
    }  # fmt: skip
    return Difference(**(values | changes))


def test_steps_of_a_cell_lead_from_the_streams_value_to_batchs(connection: duckdb.DuckDBPyConnection) -> None:
    insert_row(connection, "a", (3, 2, 3, 3))

    assert cells.read_cells(make_sides(connection, LAYOUT)) == (difference(),)


def test_the_remainder_after_all_classes_is_a_step_without_a_cause(connection: duckdb.DuckDBPyConnection) -> None:
    insert_row(connection, "a", (9, 2, 3, 5), explained=0)

    assert cells.read_cells(make_sides(connection, LAYOUT)) == (
        difference(
            batch=9,
            difference=-7,
            cause="late + future + unexplained",
            steps=(
                CellStep(cause="late", before=2, after=3),
                CellStep(cause="future", before=3, after=5),
                CellStep(cause="unexplained", before=5, after=9),
            ),
        ),
    )


def test_classes_take_part_up_to_the_stage_that_equals_batch(connection: duckdb.DuckDBPyConnection) -> None:
    insert_row(connection, "a", (5, 2, 3, 5), explained=2)
    insert_row(connection, "f", (5, 2, 2, 5), explained=2)

    listed_cells = cells.read_cells(make_sides(connection, LAYOUT, same_definition=False))

    assert [(cell.key["who"], cell.cause) for cell in listed_cells] == [("a", "late + future"), ("f", "future")]


def test_against_a_teams_sql_no_class_applies_unless_it_makes_all_equal(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    insert_row(connection, "a", (9, 2, 3, 5), explained=0)

    (cell,) = cells.read_cells(make_sides(connection, LAYOUT, same_definition=False))

    assert (cell.cause, [step.cause for step in cell.steps]) == ("unexplained", ["unexplained"])


def test_records_explain_the_first_of_several_rows_of_one_key(connection: duckdb.DuckDBPyConnection) -> None:
    insert_row(connection, "a", (3, 2, 3, 3))
    insert_row(connection, "a", (3, None, None, None), copy=2, kind="missing", explained=0)

    listed_cells = cells.read_cells(make_sides(connection, LAYOUT))

    assert [(cell.kind, cell.cause) for cell in listed_cells] == [("missing", "unexplained"), ("changed", "late")]


def test_a_cell_in_which_the_sides_agree_and_a_ledger_does_not_is_shown(connection: duckdb.DuckDBPyConnection) -> None:
    insert_row(connection, "a", (2, 2, 3, 3), kind="masked", explained=0)

    (cell,) = cells.read_cells(make_sides(connection, LAYOUT))

    assert (cell.kind, cell.difference, cell.cause) == ("masked", 0, "late + future + unexplained")


def test_measures_are_shown_before_states_and_states_where_no_measure_differs(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    apart, count = ("y", "x", "y", "y"), (2, 1, 2, 2)
    insert_row(connection, "a", (3, 2, 3, 3), apart, apart, count)
    insert_row(connection, "b", (1, 1, 1, 1), SAME, apart, count)

    listed_cells = cells.read_cells(make_sides(connection, LAYOUT))

    assert [(cell.key["who"], cell.measure) for cell in listed_cells] == [
        ("a", "clicks"),
        ("a", "name"),
        ("b", "name__state"),
        ("b", "_n"),
    ]


def test_a_row_without_a_window_or_a_key_is_shown_without_one(connection: duckdb.DuckDBPyConnection) -> None:
    insert_row(connection, None, (3, None, None, None), hour=None, kind="missing", explained=0)

    (cell,) = cells.read_cells(make_sides(connection, LAYOUT))

    assert (cell.window_start, cell.key, cell.streaming, cell.difference) == (None, {"who": None}, None, -3)


def test_rows_without_a_cause_come_first_then_by_window_and_key(connection: duckdb.DuckDBPyConnection) -> None:
    insert_row(connection, "b", (3, 2, 3, 3), explained=2)
    insert_row(connection, "a", (3, 2, 3, 3), hour=1)
    insert_row(connection, "a", (3, 2, 3, 3))
    insert_row(connection, "z", (3, 2, 2, 2), hour=5, explained=0)

    listed_cells = cells.read_cells(make_sides(connection, LAYOUT))

    places = [(str(cell.window_start)[11:13], cell.key["who"]) for cell in listed_cells]
    assert places == [("05", "z"), ("00", "a"), ("00", "b"), ("01", "a")]


def test_a_rare_kind_of_row_is_not_crowded_out(connection: duckdb.DuckDBPyConnection) -> None:
    for key in "abcdef":
        insert_row(connection, key, (3, 2, 2, 2), explained=0)
    insert_row(connection, "g", (3, None, None, None), kind="missing", explained=0)
    insert_row(connection, "h", (1, 1, 1, 1), ("y", "x", "x", "x"), explained=0)  # another column differs
    insert_row(connection, "i", (3, 2, 3, 3))

    listed_cells = cells.read_cells(make_sides(connection, LAYOUT), limit=4)
    further_cells = cells.read_cells(make_sides(connection, LAYOUT), condition="who > 'g'", limit=4)

    assert [cell.key["who"] for cell in listed_cells] == ["a", "b", "g", "h"]
    assert [cell.key["who"] for cell in further_cells] == ["h", "i"]


def test_each_cell_in_which_any_stage_differs_is_counted_and_each_row_at_least_once(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    insert_row(connection, "a", (3, 2, 3, 3), ("y", "y", "y", "x"))
    insert_row(connection, "b", (1, 1, 1, 1), SAME, ("y", "x", "y", "y"))

    assert cells.count_cells(make_sides(connection, LAYOUT)) == 2 + 1


@pytest.mark.parametrize(
    ("left_value", "right_value", "additive", "expected"),
    [
        (5, 3, False, 2),
        (Decimal("5.5"), 3, False, 2.5),
        (None, 3, True, -3),
        (3, None, True, 3),
        (None, 3, False, None),
        (3, None, False, None),
        (None, None, True, None),
        ("b", "a", False, None),
        (True, False, False, None),
        (2, True, False, None),
        ("b", None, True, None),
    ],
)
def test_values_have_a_difference_where_they_are_numbers(
    left_value: object, right_value: object, *, additive: bool, expected: object
) -> None:
    result = cells.subtract(left_value, right_value, additive=additive)

    assert result is None if expected is None else float(str(result)) == expected


NEAR = Value(name="v", exact=False, relative=0.25, absolute=0.5)


@pytest.mark.parametrize(
    ("left_value", "right_value", "is_same"),
    [
        (1.0, 1.5, True),  # as far as the absolute bound
        (1.0, 1.5625, False),
        (3.0, 4.0, True),  # as far as the relative bound, of the larger one
        (4.0, 3.0, True),
        (-3.0, -4.0, True),
        (3.0, 4.25, False),
        (None, 0.0, False),
        (0.0, None, False),
    ],
)
def test_values_are_the_same_up_to_the_larger_of_their_bounds(
    left_value: float | None, right_value: float | None, *, is_same: bool
) -> None:
    assert cells.are_equal(NEAR, left_value, right_value) is is_same


def test_values_that_are_compared_exactly_are_not_near() -> None:
    assert cells.are_equal(Value(name="v"), 1.0, 1)
    assert not cells.are_equal(Value(name="v", relative=0.5), 1.0, 1.25)
