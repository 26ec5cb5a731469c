"""Folding composite states: touching sessions, counts of values, smallest hashes and earliest rows."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import duckdb
import pytest

from cutover.definition import ApproxDistinct, Bag, Count, Fixed, Pipeline, Topic, TopK
from cutover.definition.measures.kinds import Measure
from cutover.records.fold import fold_sql, group_sessions_sql

PIPELINE = Pipeline(
    name="p",
    source=Topic(name="t", schema="k string, at timestamp, n bigint", event_time="at"),
    key=("k",),
    window=Fixed(hours=1),
    measures={"n": Count()},
)
COUNTED = "STRUCT(value BIGINT, count BIGINT)[]"
PLACED = 'STRUCT(event_time BIGINT, "partition" INT, "offset" BIGINT, value BIGINT)[]'


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as database:
        yield database


def fold(connection: duckdb.DuckDBPyConnection, measure: Measure, column: str, kind: str, states: list[Any]) -> Any:
    """Fold the states of one measure over partial rows of one window and key."""
    folded = fold_sql(replace(PIPELINE, measures={"x": measure}), "parts")
    columns = f"_class VARCHAR, window_start INT, window_end INT, k VARCHAR, {column} {kind}, _n INT"
    connection.execute(f"CREATE OR REPLACE TEMP TABLE parts ({columns})")
    for state in states:
        connection.execute("INSERT INTO parts VALUES ('accepted', 0, 1, 'a', ?, 1)", [state])
    ((folded_state, rows),) = connection.execute(f"SELECT {column}, _n FROM ({folded})").fetchall()  # noqa: S608 -- ours
    assert rows == len(states)
    return folded_state


def entries(*pairs: tuple[int, int]) -> list[dict[str, int]]:
    return [{"value": value, "count": count} for value, count in pairs]


@pytest.mark.parametrize("more", [0, 12, 13, 40], ids="{} further values".format)
def test_counts_of_a_value_add_up_and_stay_in_order(connection: duckdb.DuckDBPyConnection, more: int) -> None:
    further = [(10 + i, 1) for i in range(more)]

    folded = fold(
        connection, TopK("n"), "x__counts", COUNTED, [entries((2, 1), (5, 4)), None, entries((1, 3), (2, 6), *further)]
    )

    assert folded == entries((1, 3), (2, 1 + 6), (5, 4), *further)


def test_a_single_value_is_counted(connection: duckdb.DuckDBPyConnection) -> None:
    assert fold(connection, TopK("n"), "x__counts", COUNTED, [entries((3, 2)), None]) == entries((3, 2))


@pytest.mark.parametrize("states", [[None], [None, []], [[]]], ids=["null", "both", "empty"])
def test_counts_of_no_value_are_null(connection: duckdb.DuckDBPyConnection, states: list[Any]) -> None:
    assert fold(connection, TopK("n"), "x__counts", COUNTED, states) is None


def test_the_smallest_hashes_are_kept_once_each(connection: duckdb.DuckDBPyConnection) -> None:
    assert fold(connection, ApproxDistinct("n", 3), "x__hashes", "BIGINT[]", [[-4, 2, 9], [2, 5], None, [-4, 7]]) == [
        -4,
        2,
        5,
    ]


def test_the_earliest_rows_are_kept_equal_values_each(connection: duckdb.DuckDBPyConnection) -> None:
    def row(at: int, offset: int) -> dict[str, int]:
        return {"event_time": at, "partition": 0, "offset": offset, "value": 7}

    assert fold(connection, Bag("n", 3), "x__rows", PLACED, [[row(2, 5), row(9, 1)], [row(2, 4), row(3, 0)]]) == [
        row(2, 4),
        row(2, 5),
        row(3, 0),
    ]


@pytest.mark.parametrize(
    ("rows", "sessions"),
    [
        pytest.param([("a", 0, 10), ("a", 10, 20)], [0, 0], id="the end of one is the start of the other"),
        pytest.param([("a", 0, 10), ("a", 11, 21)], [0, 11], id="a moment apart"),
        pytest.param([("a", 0, 30), ("a", 5, 15), ("a", 30, 40), ("a", 41, 51)], [0, 0, 0, 41], id="over another one"),
        pytest.param([("a", 0, 10), ("b", 5, 15)], [0, 5], id="two keys"),
        pytest.param([(None, 0, 10), (None, 10, 20)], [0, 0], id="a null key is a value"),
        pytest.param([("a", 0, 10), ("a", 0, 10), ("a", 0, 12), ("a", 12, 22)], [0, 0, 0, 0], id="equal starts"),
        pytest.param([("a", 0, 1), ("a", 5, 6), ("a", 9, 10)], [0, 5, 9], id="three separate ones"),
    ],
)
def test_rows_that_touch_are_of_the_session_of_the_first(
    connection: duckdb.DuckDBPyConnection, rows: list[tuple[str | None, int, int]], sessions: list[int]
) -> None:
    connection.execute("CREATE OR REPLACE TEMP TABLE alone (k VARCHAR, window_start INT, window_end INT)")
    for row in rows:
        connection.execute("INSERT INTO alone VALUES (?, ?, ?)", row)
    grouped = group_sessions_sql(("k",), "alone")
    query = f"SELECT k, window_start, window_end, __session FROM ({grouped}) ORDER BY window_start, window_end, k"  # noqa: S608 -- ours
    grouped_rows = connection.execute(query).fetchall()

    assert grouped_rows == [(*row, session) for row, session in zip(rows, sessions, strict=True)]
