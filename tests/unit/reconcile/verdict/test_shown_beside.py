"""Parts of a report other than its verdict, from constructed tables: days, records, samples, distances."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import duckdb
import pytest

from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.definition.windows.kinds import Global
from cutover.engine import queries
from cutover.reconcile.attribution import cells
from cutover.reconcile.comparison.layout import Layout, SharedTable, Value, make_default_comparison
from cutover.reconcile.report import sections
from cutover.reconcile.result.finding import Apart, SampleRecord
from cutover.reconcile.result.parts import CalendarDay, RecordBehind

LAYOUT = Layout(
    keys=("window_start", "shop"),
    values=(make_default_comparison("total", "BIGINT"), make_default_comparison("label", "VARCHAR"), Value(name="_n")),
    group="window_start",
    wide=frozenset(),
)
SALES = Pipeline(
    name="sales",
    source=Topic(name="sales", schema="shop string, at timestamp NOT NULL", event_time="at"),
    key=("shop",),
    window=Fixed(hours=1),
    measures={"total": Count()},
)


def at(day: int, hour: int = 0) -> str:
    return f"TIMESTAMPTZ '2026-01-{day:02} {hour:02}:00:00+00'"


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with queries.open_duckdb() as connection:
        yield connection


def create_table(connection: duckdb.DuckDBPyConnection, name: str, columns: str, *rows: str) -> None:
    connection.execute(f"CREATE TEMP TABLE {name} AS SELECT * FROM (VALUES {', '.join(rows)}) t({columns})")  # noqa: S608 -- ours


def sides(connection: duckdb.DuckDBPyConnection, **fields: Any) -> Mock:
    defaults = {"merged": ("late",), "same_definition": True, "tells_twins": False, "layout": LAYOUT}
    return Mock(connection=connection, **defaults | fields)


def test_each_day_counts_the_windows_of_either_side_those_that_differ_and_rows_by_cause(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    create_table(
        connection, SharedTable.EXPECTED, "window_start", f"({at(1)})", f"({at(1)})", f"({at(1, 23)})", "(NULL)"
    )
    create_table(connection, "stage_0", "window_start", f"({at(1)})", f"({at(2)})", f"({at(4, 7)})")
    touched = (
        f"({at(1)}, 'a', 1, 1)",
        f"({at(1)}, 'b', 1, 1)",
        f"({at(1)}, 'c', 1, 0)",
        f"({at(4, 7)}, 'd', 1, 0)",
        "(NULL, 'e', 1, 0)",
    )
    create_table(connection, SharedTable.TOUCHED, "window_start, shop, __copy, _explained", *touched)
    ledger_rows = (f"('late', {at(1)}, 'a')", f"('late', {at(1)}, 'b')", f"('late', {at(1)}, 'c')")
    create_table(connection, "ledger_keys", "_class, window_start, shop", *ledger_rows)

    assert sections.calendar(sides(connection)) == (
        CalendarDay(day="2026-01-01", windows=2, different=1, causes={"late": 3, "unexplained": 1}),
        CalendarDay(day="2026-01-02", windows=1, different=0, causes={}),
        CalendarDay(day="2026-01-04", windows=1, different=1, causes={"unexplained": 1}),
    )


@pytest.mark.parametrize(
    ("max_days", "expected"),
    [
        (3, ["2026-01-30", "2026-01-31", "2026-02-01"]),
        (2, ["2026-01", "2026-02"]),
        (1, ["2026"]),
    ],
)
def test_days_stay_as_they_are_as_long_as_there_is_room(max_days: int, expected: list[str]) -> None:
    calendar_days = sections.shorten(
        [
            CalendarDay(day=day, windows=5, different=2, causes={"late": 1, "future": 2})
            for day in ("2026-01-30", "2026-01-31", "2026-02-01")
        ],
        max_days,
    )

    assert [calendar_day.day for calendar_day in calendar_days] == expected
    assert [
        sum(part)
        for part in zip(
            *((calendar_day.windows, calendar_day.different) for calendar_day in calendar_days), strict=True
        )
    ] == [15, 6]
    assert sum(calendar_day.causes["future"] for calendar_day in calendar_days) == 2 * 3


DESKS = replace(SALES, key=("shop", "desk"))


def test_the_first_ten_records_of_a_row_are_shown_once_however_many_copies_it_has(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    columns = "window_start, shop, desk, __copy, _kind, _explained, " + ", ".join(
        f"__{side}{n}" for n in range(3) for side in ("b", "v0_", "v1_")
    )
    rows = [f"({at(1)}, 'a', 7, {copy}, 'changed', 1, 2, 1, 2, 'x', 'x', 'x', 2, 1, 2)" for copy in (1, 2)]
    create_table(connection, SharedTable.TOUCHED, columns, *rows)
    names = "window_start, shop, desk, _class, _partition, _offset, event_time, _epoch, reason"
    ledger_rows = (f"({at(1)}, 'a', 7, 'late', {n % 2}, {n}, NULL, 3, 'why')" for n in range(13))
    create_table(connection, SharedTable.LEDGER, names, *ledger_rows)
    layout = replace(LAYOUT, keys=("window_start", "shop", "desk"))

    records_behind = cells.read_records_behind(sides(connection, layout=layout), DESKS, limit=10)

    assert [(record.partition, record.offset) for record in records_behind] == [
        *((0, offset) for offset in (0, 2, 4, 6, 8, 10, 12)),
        *((1, offset) for offset in (1, 3, 5)),
    ]
    assert records_behind[-1] == RecordBehind(
        window_start="2026-01-01T00:00:00Z",
        key={"shop": "a", "desk": 7},
        cause="late",
        partition=1,
        offset=5,
        event_time=None,
        epoch=3,
        reason="why",
    )
    assert cells.read_records_behind(sides(connection, layout=layout, merged=()), DESKS, limit=10) == ()


def test_samples_are_the_first_records_of_each_class_the_late_ones_first(connection: duckdb.DuckDBPyConnection) -> None:
    many = [f"({at(1)}, 'a', 'late', 0, {offset}, {at(1, 1)}, NULL)" for offset in range(25)]
    few = ("(NULL, NULL, 'malformed', 1, 9, NULL, 'json')", f"({at(2)}, NULL, 'future', 2, 1, {at(2, 1)}, NULL)")
    create_table(
        connection,
        SharedTable.LEDGER,
        "window_start, shop, _class, _partition, _offset, event_time, reason",
        *reversed(many),
        *few,
    )

    sample_records = sections.list_excluded_records(sides(connection), SALES)

    assert [(record.class_, record.partition, record.offset) for record in sample_records] == [
        *(("late", 0, offset) for offset in range(20)),
        ("future", 2, 1),
        ("malformed", 1, 9),
    ]
    assert sample_records[0] == SampleRecord(
        class_="late",
        partition=0,
        offset=0,
        event_time="2026-01-01T01:00:00Z",
        window_start="2026-01-01T00:00:00Z",
        key={"shop": "a"},
        reason=None,
    )
    assert sample_records[-1] == SampleRecord(
        class_="malformed", partition=1, offset=9, event_time=None, window_start=None, key={}, reason="json"
    )
    assert sample_records[-2].key == {"shop": None}


def test_amounts_are_apart_in_measures_that_are_numbers_and_in_rows_that_both_sides_have(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    columns = "_kind, __b0, __v0_0, __b1, __v0_1, __b2, __v0_2"
    rows = ("('changed', 10, 13, 'x', 'y', 1, 2)", "('missing', 10, NULL, 'x', NULL, 1, NULL)")
    create_table(connection, SharedTable.TOUCHED, columns, *rows, "('masked', 5, 6, 'x', 'y', 1, 2)")

    assert sections.measure_apart(sides(connection)) == (
        Apart(column="total", rows=1, above=1, mean=3.0, p50=3.0, p90=3.0, p99=3.0, largest=3.0),
    )


def frequent(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline) -> dict[str, tuple[int, int]]:
    """Count differing rows and all rows by column and value; all six rows of shop `a` differ, two are masked."""
    touched = [f"({at(5, hour)}, 'a', '{'missing' if hour < 3 else 'changed'}')" for hour in range(6)]
    masked = [f"({at(6, hour)}, 'a', 'masked')" for hour in range(2)]
    create_table(connection, SharedTable.TOUCHED, "window_start, shop, _kind", *touched, *masked)
    agreeing_rows = [f"({at(5, hour)}, 'a')" for hour in range(3, 6)] + [f"({at(6, hour)}, 'a')" for hour in range(2)]
    other_rows = [f"({at(6 + n // 20, n % 20)}, 'b')" for n in range(60)]
    create_table(connection, "stage_0", "window_start, shop", *agreeing_rows, *other_rows)
    key_segments = sections.find_over_represented(sides(connection), pipeline)
    return {f"{segment.column} {segment.value}": (segment.different, segment.rows) for segment in key_segments}


def test_keys_and_days_with_more_than_their_share_are_counted_among_the_rows_of_both_sides(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    assert frequent(connection, SALES) == {"weekday of window_start Monday": (6, 6), "shop a": (6, 3 + 3 + 2)}


def test_all_of_time_has_no_hours_and_no_weekdays(connection: duckdb.DuckDBPyConnection) -> None:
    assert frequent(connection, replace(SALES, window=Global())) == {"shop a": (6, 3 + 3 + 2)}


def test_the_file_of_all_rows_has_each_with_its_causes_and_both_sides_measures(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    columns = "window_start, shop, __copy, _kind, _explained, __b0, __v0_0, __b1, __v0_1, __b2, __v0_2"
    rows = (
        f"({at(2)}, 'a', 1, 'changed', 0, 5, 3, 'x', 'y', 1, 2)",
        f"({at(1)}, 'b', 2, 'extra', 0, NULL, 7, NULL, 'z', NULL, 1)",
        f"({at(1)}, 'b', 1, 'missing', 1, 4, NULL, 'z', NULL, 1, NULL)",
        f"({at(1)}, 'a', 1, 'changed', 1, 6, 7, 'z', 'z', 1, 1)",
    )
    create_table(connection, SharedTable.TOUCHED, columns, *rows)
    ledger_rows = (f"('late', {at(2)}, 'a')", f"('late', {at(1)}, 'b')")
    create_table(connection, "ledger_keys", "_class, window_start, shop", *ledger_rows)
    file = tmp_path / "reports" / "sales" / "differences.parquet"

    cells.write_all_differences(sides(connection), file)

    written_rows = connection.execute(f"SELECT epoch(window_start), * EXCLUDE (window_start) FROM '{file}'").fetchall()  # noqa: S608 -- ours
    first_day, second = 1_767_225_600, 1_767_312_000
    assert written_rows == [
        (first_day, {"shop": "a"}, "changed", "unexplained", {"total": 6, "label": "z"}, {"total": 7, "label": "z"}),
        (first_day, {"shop": "b"}, "missing", "late", {"total": 4, "label": "z"}, {"total": None, "label": None}),
        (first_day, {"shop": "b"}, "extra", "unexplained", {"total": None, "label": None}, {"total": 7, "label": "z"}),
        (
            second,
            {"shop": "a"},
            "changed",
            "late + unexplained",
            {"total": 5, "label": "x"},
            {"total": 3, "label": "y"},
        ),
    ]


def test_a_full_disk_leaves_no_file_and_raises_nothing(tmp_path: Path) -> None:
    full = Mock(
        connection=Mock(execute=Mock(side_effect=duckdb.IOException("No space left"))), layout=LAYOUT, merged=()
    )
    partial_file, never = tmp_path / "begun.parquet", tmp_path / "never.parquet"
    partial_file.write_bytes(b"PAR1")

    for file in (partial_file, never):
        cells.write_all_differences(full, file)

    assert list(tmp_path.iterdir()) == []
