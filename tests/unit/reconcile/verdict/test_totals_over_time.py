"""Charts of windows and totals, from constructed tables: steps add up, and points cover round periods."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from unittest.mock import Mock

import duckdb
import pytest

from cutover.definition import Count, Fixed, Lateness, Max, Pipeline, Sum, Topic
from cutover.engine import queries
from cutover.reconcile.comparison.layout import Layout, SharedTable, Value
from cutover.reconcile.report import sections
from cutover.reconcile.result.finding import Waterfall, WaterfallStep
from cutover.reconcile.result.measurements import LatenessBin, WindowPoint

MINUTE = 60_000_000
NOON = "TIMESTAMPTZ '2026-01-05 12:00:00+00'"  # a Monday
LAYOUT = Layout(
    keys=("window_start", "shop"),
    values=(Value(name="most"), Value(name="total", additive=True), Value(name="sales", additive=True)),
    group="window_start",
    wide=frozenset(),
)
SALES = Pipeline(
    name="sales",
    source=Topic(name="sales", schema="shop string, amount bigint, at timestamp NOT NULL", event_time="at"),
    key=("shop",),
    window=Fixed(hours=1),
    measures={"most": Max("amount"), "total": Sum("amount"), "sales": Count()},
    lateness=Lateness(out_of_orderness="0 seconds", allowed="10 minutes"),
)


@dataclass(frozen=True, slots=True)
class Tables:
    """Hand-made tables of one comparison."""

    connection: duckdb.DuckDBPyConnection

    def create(self, name: str, query: str) -> None:
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}")

    def create_starts(self, starts: str) -> None:
        """Create equal rows of one sale at each start on both sides."""
        for name in (SharedTable.EXPECTED, "stage_0"):
            row = "opens AS window_start, 'a' AS shop, 2 AS most, 2 AS total, 1 AS sales"
            self.create(name, f"SELECT {row} FROM ({starts})")  # noqa: S608 -- ours
        self.create(SharedTable.TOUCHED, "SELECT now() AS window_start WHERE false")

    def sides(self, *merged: str, layout: Layout = LAYOUT) -> Mock:
        return Mock(connection=self.connection, layout=layout, merged=merged)


@pytest.fixture
def tables() -> Iterator[Tables]:
    with queries.open_duckdb() as connection:
        yield Tables(connection)


def test_waterfall_has_a_step_for_each_cause_that_changes_the_total(tables: Tables) -> None:
    """A row missing on one side counts as zero; the steps lead from the last class back to the stream."""
    tables.create(SharedTable.EXPECTED, "SELECT 100 AS total, 7 AS sales")
    tables.create("stage_0", "SELECT 62 AS total, 5 AS sales")
    columns = "__v0_1, __v1_1, __v2_1, __b1, __v0_2, __v1_2, __v2_2, __b2"
    rows = "(10, 15, 35, 41, 1, 1, 2, 2), (NULL, 6, 6, 7, NULL, 1, 1, 1), (3, 3, 3, NULL, 1, 1, 1, 1)"
    tables.create(SharedTable.TOUCHED, f"SELECT * FROM (VALUES {rows}) t({columns})")  # noqa: S608 -- ours

    waterfalls = sections.compute_waterfalls(tables.sides("late", "future"), SALES)

    assert waterfalls == (
        Waterfall(
            measure="total",
            batch=100,
            steps=(
                WaterfallStep(cause="late", amount=-5 - 6),
                WaterfallStep(cause="future", amount=-20),
                WaterfallStep(cause="unexplained", amount=-6 - 1 + 3),
            ),
            streaming=62,
        ),
        Waterfall(
            measure="sales",
            batch=7,
            steps=(WaterfallStep(cause="late", amount=-1), WaterfallStep(cause="future", amount=-1)),
            streaming=5,
        ),
    )


def test_each_window_is_a_point_with_the_first_total_of_both_sides_and_its_rows_that_differ(tables: Tables) -> None:
    tables.create(
        SharedTable.EXPECTED, f"SELECT {NOON} AS window_start, 9 AS most, unnest([3, 4]) AS total, 5 AS sales"
    )
    tables.create(
        "stage_0",
        f"SELECT {NOON} + INTERVAL 1 HOUR AS window_start, 9 AS most, 6 AS total, 1 AS sales"
        f" UNION ALL SELECT {NOON}, 9, 3, 2",
    )
    tables.create(SharedTable.TOUCHED, f"SELECT {NOON} AS window_start UNION ALL SELECT {NOON}")

    assert sections.list_window_points(tables.sides(), SALES) == (
        WindowPoint(window_start="2026-01-05T12:00:00Z", streaming=3, batch=3 + 4, different_rows=2, windows=1),
        WindowPoint(window_start="2026-01-05T13:00:00Z", streaming=6, batch=None, different_rows=0, windows=1),
    )


def test_windows_without_a_measure_that_adds_up_are_counted_all_the_same(tables: Tables) -> None:
    tables.create_starts(f"SELECT {NOON} AS opens")
    pipeline = Pipeline(
        name="sales", source=SALES.source, key=SALES.key, window=SALES.window, measures={"most": Max("amount")}
    )

    assert sections.list_window_points(tables.sides(), pipeline) == (
        WindowPoint(window_start="2026-01-05T12:00:00Z", streaming=None, batch=None, different_rows=0),
    )


@pytest.mark.parametrize(
    ("windows", "apart", "points", "first_windows"),
    [
        pytest.param(1_000, 1, 1_000, 1, id="as many as there are points"),
        pytest.param(1_001, 1, 201, 5, id="five minutes"),
        pytest.param(1_001, 5, 334, 3, id="a quarter of an hour, since five minutes are one point too many"),
        pytest.param(1_001, 1_440, 143, 7, id="weeks"),
        pytest.param(1_430, 28 * 1_440, 1_430, 1, id="at most four weeks"),
        pytest.param(2_001, 20 * 1_440, 1_430, 1, id="four weeks, where nothing makes few points"),
    ],
)
def test_many_windows_share_points_of_the_shortest_round_time_that_makes_few(
    tables: Tables, windows: int, apart: int, points: int, first_windows: int
) -> None:
    starts = f"SELECT {NOON} - INTERVAL 12 HOUR + to_minutes(i * {apart}) AS opens FROM range({windows}) r(i)"  # noqa: S608 -- ours
    tables.create_starts(starts)

    window_points = sections.list_window_points(tables.sides(), SALES)

    assert (len(window_points), window_points[0].windows) == (points, first_windows)
    assert (sum(point.windows for point in window_points), sum(int(str(point.batch)) for point in window_points)) == (
        windows,
        2 * windows,
    )


def test_weeks_begin_on_mondays(tables: Tables) -> None:
    friday = datetime(2026, 1, 2, tzinfo=UTC)
    tables.create_starts(f"SELECT TIMESTAMPTZ '{friday}' + to_days(i::INTEGER) AS opens FROM range(1200) r(i)")  # noqa: S608 -- ours

    window_points = sections.list_window_points(tables.sides(), SALES)

    starts = [friday, *(friday + timedelta(days=3 + 7 * week) for week in range(len(window_points) - 1))]
    assert [point.window_start for point in window_points] == [f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in starts]


def test_a_point_of_several_windows_has_the_rows_that_differ_in_all_of_them(tables: Tables) -> None:
    tables.create_starts(f"SELECT {NOON} + to_days(i::INTEGER) AS opens FROM range(1200) r(i)")  # noqa: S608 -- ours
    tables.create(SharedTable.TOUCHED, f"SELECT {NOON} + to_days(unnest([0, 0, 6, 7])::INTEGER) AS window_start")

    assert [point.different_rows for point in sections.list_window_points(tables.sides(), SALES)[:3]] == [3, 1, 0]


def test_windows_a_microsecond_apart_have_a_point_each(tables: Tables) -> None:
    tables.create_starts(f"SELECT {NOON} + to_microseconds(i) AS opens FROM range(4) r(i)")  # noqa: S608 -- ours

    assert [point.windows for point in sections.list_window_points(tables.sides(), SALES)] == [1, 1, 1, 1]


def lateness(tables: Tables, *minutes: float) -> tuple[LatenessBin, ...]:
    """Bin records by minutes after their window closed, with other records that must not be counted."""
    watermarks = [
        round((60 + 10 + late) * MINUTE) for late in minutes
    ]  # the window ends at 60, and is kept open for 10
    epoch_rows = ", ".join(f"({epoch}, {at}::BIGINT)" for epoch, at in enumerate([*map(str, watermarks), "NULL"]))
    tables.create(SharedTable.EPOCH_WATERMARKS, f"SELECT * FROM (VALUES {epoch_rows}) t(epoch, watermark)")  # noqa: S608 -- ours
    late = ", ".join(f"({epoch}, 'late'), ({epoch}, 'future')" for epoch in range(len(watermarks) + 1))
    tables.create(
        SharedTable.LEDGER,
        f"SELECT _epoch, _class, make_timestamptz({60 * MINUTE}) AS window_end FROM (VALUES {late}) t(_epoch, _class)",  # noqa: S608 -- ours
    )
    return sections.bin_lateness(tables.sides("late"), SALES)


def test_late_records_are_counted_by_how_long_their_window_had_been_closed(tables: Tables) -> None:
    bins = lateness(tables, 0, 4.9, 5, 15, 20_000)

    edges = [0, 5, 15, 30, 60, 120, 240, 480, 960, 1440, 2880, 10080, 20_040]
    assert [(lateness_bin.from_minutes, lateness_bin.to_minutes) for lateness_bin in bins] == list(pairwise(edges))
    assert [lateness_bin.events for lateness_bin in bins] == [2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1]


def test_bins_end_with_the_last_that_holds_a_record(tables: Tables) -> None:
    assert lateness(tables, 7) == (
        LatenessBin(from_minutes=0, to_minutes=5, events=0),
        LatenessBin(from_minutes=5, to_minutes=15, events=1),
    )
    assert lateness(tables, 10_080)[-1] == LatenessBin(from_minutes=10_080, to_minutes=10_140, events=1)
    assert lateness(tables) == ()
