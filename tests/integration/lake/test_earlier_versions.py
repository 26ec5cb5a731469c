"""Sessions of an earlier version of the stream merged with those of the version that continues on another log."""

from dataclasses import replace

import duckdb
import pytest

from cutover.definition import Count, Sessions
from cutover.lake.serving.views import _merge_sql
from tests.integration.reconcile.lake_of import PIPELINE

SESSIONS = replace(PIPELINE, window=Sessions("10 minutes"), measures={"sales": Count()})


def test_session_is_kept_unless_one_of_its_key_touches_it() -> None:
    connection = duckdb.connect()
    columns = "window_start, window_end, shop, desk, sales, _n"
    for name, rows in {
        "streaming": "(30, 40, 'a', NULL, 5, 5), (60, 70, 'b', 1, 1, 1)",
        "lost_0": "(0, 10, 'a', NULL, 1, 1), (20, 30, 'a', NULL, 9, 9), (65, 90, 'a', 1, 2, 2)",
    }.items():
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM (VALUES {rows}) AS t({columns})")  # noqa: S608 -- ours

    merged_rows = connection.execute(_merge_sql(SESSIONS, "streaming", "lost_0")).fetchall()

    assert sorted(merged_rows, key=str) == [
        (0, 10, "a", None, 1, 1),
        (30, 40, "a", None, 5, 5),
        (60, 70, "b", 1, 1, 1),
        (65, 90, "a", 1, 2, 2),
    ]


@pytest.mark.quick
def test_session_without_a_key_is_kept_unless_one_touches_it() -> None:
    connection = duckdb.connect()
    for name, rows in {"streaming": "(30, 40, 5, 5)", "lost_0": "(0, 10, 1, 1), (35, 50, 2, 2)"}.items():
        table = f"{name}(window_start, window_end, sales, _n)"
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM (VALUES {rows}) AS {table}")  # noqa: S608 -- ours

    merged = connection.execute(_merge_sql(replace(SESSIONS, key=()), "streaming", "lost_0")).fetchall()

    assert sorted(merged) == [(0, 10, 1, 1), (30, 40, 5, 5)]
