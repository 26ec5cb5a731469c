"""Both sides of small tables: compared windows, reasons for excluded ones, and the compared columns."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import duckdb
import pyarrow as pa
import pytest

from cutover.definition import Count, Lateness, Pipeline, Sessions, Sql
from cutover.lake.batch_runs import Range
from cutover.lake.epochs.delivery import NO_FAULTS
from cutover.lake.tables import commits, delta
from cutover.lake.tables.schemas import batch_schema, epoch_log_schema
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.comparison.layout import SharedTable
from cutover.reconcile.comparison.sides import Sides, open_sides
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import HOUR, PIPELINE, START, Sale, lake_of, micros

OPEN = 99  # the first hour that is not closed at the cut
MINUTES = 60_000_000
VISITS = replace(
    PIPELINE,
    name="visits",
    window=Sessions(gap="30 minutes"),
    measures={"sales": Count()},
    lateness=Lateness(allowed="1 hour"),
)


def hours(*numbers: int) -> tuple[Range, ...]:
    return tuple((micros(hour), micros(hour + 1)) for hour in numbers)


@contextmanager
def open_both_sides(
    settings: Settings,
    sales: Sequence[Sale],
    *,
    pipeline: Pipeline = PIPELINE,
    stale: tuple[Range, ...] = (),
    unread: tuple[Range, ...] = (),
    requested_range: tuple[int | None, int | None] = (None, None),
) -> Iterator[Sides]:
    """Open both sides of these records, of hours `[from, to)`."""
    lake = lake_of(sales, pipeline)
    pipeline_lake = PipelineLake(settings, pipeline)
    batch = delta.ensure(pipeline_lake.batch_uri(), batch_schema(pipeline))
    commits.append(batch, pa.Table.from_pylist(list(lake.batch), schema=batch_schema(pipeline)))
    log = pa.Table.from_pylist(list(lake.partials), schema=epoch_log_schema(pipeline))

    def bind(connection: duckdb.DuckDBPyConnection, name: str, *, epoch: int) -> None:
        assert epoch == lake.run.epoch
        connection.register(name, log)

    evidence = Mock(
        epoch_log=Mock(relation=bind),
        batch=batch,
        run=replace(lake.run, stale=stale),
        losses=(),
        delivered=NO_FAULTS,
        unread=unread,
        watermark=micros(OPEN + 1),
    )
    with open_sides(pipeline_lake, evidence, *map(_moment, requested_range)) as sides:
        yield sides


def _moment(hour: int | None) -> datetime | None:
    return None if hour is None else START + timedelta(hours=hour)


def read(sides: Sides, table: str) -> list[tuple[Any, ...]]:
    """Return hour and records of the rows of a side."""
    query = f"SELECT (epoch_us(window_start) - {micros(0)}) // {HOUR}, sales FROM {table} ORDER BY 1, 2"  # noqa: S608 -- ours
    return sides.connection.execute(query).fetchall()


SALES = [
    *(Sale(hour=hour) for hour in (0, 1, 2, 3, 4, 98, OPEN, OPEN + 1)),
    *(Sale(epoch=1, hour=hour, kind="late") for hour in (1, 4, 5)),
]


def test_each_window_is_compared_open_or_incomplete_for_the_first_reason(settings: Settings) -> None:
    with open_both_sides(settings, SALES, stale=hours(2, 3, OPEN), unread=hours(3, 0)) as sides:
        assert (sides.open_windows, dict(sides.incomplete), sides.incomplete_windows) == (
            2,
            {"unread": 2, "stale": 1},
            3,
        )
        assert sides.skipped_ranges == (*hours(3, 0), *hours(2, 3, OPEN))
        assert read(sides, SharedTable.EXPECTED) == [(1, 2), (4, 2), (5, 1), (98, 1)]
        assert read(sides, "stage_0") == [(1, 1), (4, 1), (98, 1)]
        assert read(sides, "stage_1") == [(1, 2), (4, 2), (5, 1), (98, 1)]


@pytest.mark.parametrize(
    ("requested_range", "opens", "incomplete", "expected_hours"),
    [
        ((1, 4), 0, {"stale": 1}, [1, 2]),
        ((4, None), 2, {}, [4, 5, 98]),
        ((None, 3), 0, {}, [0, 1, 2]),
        ((OPEN + 1, None), 1, {}, []),
    ],
)
def test_only_windows_of_the_requested_range_are_counted(
    settings: Settings,
    requested_range: tuple[int | None, int | None],
    opens: int,
    incomplete: dict[str, int],
    expected_hours: list[int],
) -> None:
    with open_both_sides(settings, SALES, stale=hours(3, OPEN), requested_range=requested_range) as sides:
        assert (sides.open_windows, dict(sides.incomplete)) == (opens, incomplete)
        assert [hour for hour, _ in read(sides, SharedTable.EXPECTED)] == expected_hours
        assert [hour for hour, _ in read(sides, "stage_1")] == expected_hours


def test_measures_their_states_and_the_records_behind_them_are_compared_and_last_the_end_of_the_window(
    settings: Settings,
) -> None:
    with open_both_sides(settings, [Sale()]) as sides:
        layout = sides.layout

    assert (layout.keys, layout.group, layout.component) == (("window_start", "shop", "desk"), "window_start", None)
    assert [(value.name, value.additive) for value in layout.values] == [
        ("sales", True),
        ("revenue", True),
        ("least", False),
        ("most", False),
        ("mean", False),
        ("mean__sum", False),
        ("mean__count", False),
        ("_n", True),
        ("window_end", False),
    ]
    assert [value.name for value in layout.values if value.is_implied] == ["window_end"]
    assert layout.narrow == {"revenue": "DECIMAL(18,0)", "mean__sum": "DECIMAL(18,0)"}
    assert (sides.merged, sides.same_definition, sides.has_twin_tables) == (("late",), True, False)


@pytest.mark.parametrize(("record_id", "further"), [(None, ()), ("id", ("duplicate",))])
def test_against_a_teams_sql_only_measures_are_compared(
    settings: Settings, tmp_path: Path, record_id: str | None, further: tuple[str, ...]
) -> None:
    (tmp_path / "legacy.sql").write_text("SELECT ...", encoding="utf-8")
    source = replace(PIPELINE.source, record_id=record_id)
    legacy = replace(PIPELINE, source=source, batch=Sql("legacy.sql"), file=tmp_path / "sales.py")
    sales = [Sale(), Sale(epoch=1, kind="future"), Sale(epoch=1, hour=1, kind="late")]

    with open_both_sides(settings, sales, pipeline=legacy) as sides:
        assert (sides.merged, sides.same_definition, sides.has_twin_tables) == (
            ("late", "future", *further),
            False,
            False,
        )
        assert [value.name for value in sides.layout.values] == [*PIPELINE.measures, "window_end"]
        stages = [read(sides, f"stage_{number}") for number in range(3)]

    assert stages == [[(0, 1)], [(0, 1), (1, 1)], [(0, 2), (1, 1)]]


def test_uncompared_sessions_include_everything_they_touch(
    settings: Settings,
) -> None:
    sales = [Sale(hour=hour) for hour in (0, 10, OPEN)]
    with open_both_sides(settings, sales, pipeline=VISITS, stale=((micros(10), micros(10) + 1),)) as sides:
        layout = sides.layout
        assert (sides.open_windows, dict(sides.incomplete)) == (1, {"stale": 1})
        assert sides.skipped_ranges == tuple((micros(hour), micros(hour) + 30 * MINUTES + 1) for hour in (10, OPEN))
        assert read(sides, SharedTable.EXPECTED) == read(sides, "stage_0") == [(0, 1)]

    assert layout.place == (layout.component, "shop", "desk")
    assert [value.name for value in layout.values] == ["sales", "window_end", "_n"]
    assert all(value.is_measure is (value.name != "_n") for value in layout.values)
