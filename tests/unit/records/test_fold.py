"""Folding in DuckDB: keys are null-safe, types are preserved, and only the requested classes count."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pytest

from cutover.definition import Avg, Count, Fixed, Max, Min, Pipeline, Sum, Topic
from cutover.records.fold import finish_columns, finish_sql, fold_sql

PIPELINE = Pipeline(
    name="orders",
    source=Topic(name="orders", schema="place string, at timestamp, amount decimal(10,2), n bigint", event_time="at"),
    key=("place",),
    window=Fixed(hours=1),
    measures={"orders": Count(), "paid": Sum("amount"), "most": Max("n"), "least": Min("n"), "mean": Avg("n")},
)
COLUMNS = (
    "_class VARCHAR, window_start TIMESTAMPTZ, window_end TIMESTAMPTZ, place VARCHAR, orders BIGINT, "
    "paid DECIMAL(38,2), most BIGINT, least BIGINT, mean__sum DECIMAL(38,0), mean__count BIGINT, _n BIGINT"
)
HOUR = "TIMESTAMPTZ '2024-01-01 00:00:00+00', TIMESTAMPTZ '2024-01-01 01:00:00+00'"


@pytest.fixture
def lake() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect()
    connection.execute(f"CREATE TEMP TABLE partials ({COLUMNS})")
    for row in (
        f"('accepted', {HOUR}, 'x', 2, 1.50, 7, 3, 10, 2, 2)",
        f"('accepted', {HOUR}, 'x', 1, NULL, NULL, NULL, NULL, 0, 1)",
        f"('accepted', {HOUR}, NULL, 1, 1.00, 1, 1, 1, 1, 1)",
        f"('accepted', {HOUR}, NULL, 1, 2.25, 2, 2, 2, 1, 1)",
        f"('late', {HOUR}, 'x', 1, 9.00, 9, 9, 9, 1, 1)",
        "('malformed', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1)",
    ):
        connection.execute(f"INSERT INTO partials VALUES {row}")  # noqa: S608 -- rows of this file
    yield connection
    connection.close()


def rows(lake: duckdb.DuckDBPyConnection, sql: str, columns: str) -> list[tuple[Any, ...]]:
    query = f"SELECT {columns} FROM ({sql}) ORDER BY place NULLS FIRST"  # noqa: S608 -- columns of this file
    return [tuple(row) for row in lake.execute(query).fetchall()]


def test_partial_rows_of_one_key_become_one_row(lake: duckdb.DuckDBPyConnection) -> None:
    expected = [(None, 1 + 1, Decimal("3.25"), 2, 1, 2), ("x", 2 + 1, Decimal("1.50"), 7, 3, 2 + 1)]

    assert expected == rows(lake, fold_sql(PIPELINE, "partials"), "place, orders, paid, most, least, _n")


def test_late_rows_count_if_requested(lake: duckdb.DuckDBPyConnection) -> None:
    folded = fold_sql(PIPELINE, "partials", keep=("accepted", "late"))

    assert rows(lake, folded, "place, orders") == [(None, 2), ("x", 2 + 1 + 1)]


def test_columns_keep_their_types(lake: duckdb.DuckDBPyConnection) -> None:
    described = lake.execute(f"DESCRIBE {fold_sql(PIPELINE, 'partials')}").fetchall()

    assert [row[:2] for row in described] == [
        ("window_start", "TIMESTAMP WITH TIME ZONE"),
        ("window_end", "TIMESTAMP WITH TIME ZONE"),
        ("place", "VARCHAR"),
        ("orders", "BIGINT"),
        ("paid", "DECIMAL(38,2)"),
        ("most", "BIGINT"),
        ("least", "BIGINT"),
        ("mean__sum", "DECIMAL(38,0)"),
        ("mean__count", "BIGINT"),
        ("_n", "BIGINT"),
    ]


def test_finished_mean_is_sum_over_count(lake: duckdb.DuckDBPyConnection) -> None:
    assert rows(lake, finish_sql(PIPELINE, "partials"), "place, mean") == [(None, 3 / 2), ("x", 10 / 2)]


def test_finished_columns_come_in_order(lake: duckdb.DuckDBPyConnection) -> None:
    described = lake.execute(f"DESCRIBE {finish_sql(PIPELINE, 'partials')}").fetchall()

    assert list(finish_columns(PIPELINE)) == [row[0] for row in described]


def test_a_mean_of_nothing_is_null(lake: duckdb.DuckDBPyConnection) -> None:
    only = "(SELECT * FROM partials WHERE most IS NULL)"

    assert rows(lake, finish_sql(PIPELINE, only), "place, mean") == [("x", None)]


def test_a_fold_of_folds_is_the_fold(lake: duckdb.DuckDBPyConnection) -> None:
    once = fold_sql(PIPELINE, "partials")
    twice = fold_sql(PIPELINE, f"(SELECT 'accepted' AS _class, * FROM ({once}))")  # noqa: S608 -- our query

    assert rows(lake, once, "*") == rows(lake, twice, "*")
