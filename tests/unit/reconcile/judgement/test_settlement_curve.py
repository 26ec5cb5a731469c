"""How the error of windows shrinks as they age, from hand-made tables: ages, shares, and from when on it is settled."""

from collections.abc import Sequence
from dataclasses import replace
from unittest.mock import Mock

import pytest

from cutover.definition import Count, Fixed, Lateness, Pipeline, Sessions, Topic
from cutover.engine import queries
from cutover.reconcile.comparison.layout import Layout, Value
from cutover.reconcile.comparison.shared_tables import SharedTable
from cutover.reconcile.judgement import settlement
from cutover.reconcile.result.outcome import Settlement, SettlementPoint
from cutover.reconcile.result.rates import rate

MINUTE = 60_000_000
SALES = Pipeline(
    name="sales",
    source=Topic(name="sales", schema="shop string, at timestamp NOT NULL", event_time="at"),
    key=("shop",),
    window=Fixed(hours=1),
    measures={"sales": Count()},
    lateness=Lateness(out_of_orderness="10 minutes", allowed="20 minutes"),
)
CLOSES = 30.0  # minutes: what may be out of order, and what is allowed
LAYOUT = Layout(keys=("window_start", "shop"), values=(Value(name="_n"),), group="window_start", wide=frozenset())


def measure(windows: Sequence[int], *late: tuple[int, float], pipeline: Pipeline = SALES) -> Settlement | None:
    """Return the curve of windows of so many records; late ones by window and its age in minutes when they came."""
    with queries.connect() as connection:
        connection.execute(
            "CREATE TEMP TABLE stage_1 (window_start TIMESTAMPTZ, part TIMESTAMPTZ, shop VARCHAR, _n BIGINT);"
            f"CREATE TEMP TABLE {SharedTable.LEDGER}"
            " (_class VARCHAR, _epoch BIGINT, window_start TIMESTAMPTZ, part TIMESTAMPTZ, shop VARCHAR,"
            " window_end TIMESTAMPTZ);"
            f"CREATE TEMP TABLE {SharedTable.EPOCH_WATERMARKS} (epoch BIGINT, watermark BIGINT)"
        )
        starts = [number * 60 * MINUTE for number in range(len(windows))]
        rows = ", ".join(
            f"(make_timestamptz({start}), make_timestamptz({start}), '{shop}', {count})"
            for start, records in zip(starts, windows, strict=True)
            for shop, count in (("a", 1), ("b", records - 1))
        )
        if rows:
            connection.execute(f"INSERT INTO stage_1 VALUES {rows}")  # noqa: S608 -- ours
        for epoch, (window, age) in enumerate(late):
            end = starts[window] + 60 * MINUTE
            watermark = end + round((age - 10) * MINUTE)
            connection.execute(f"INSERT INTO {SharedTable.EPOCH_WATERMARKS} VALUES (?, ?)", [epoch, watermark])  # noqa: S608 -- ours
            for name in ("late", "future"):
                row = [name, epoch, starts[window], starts[window], "b", end]
                of = "?, ?, make_timestamptz(?), make_timestamptz(?), ?, make_timestamptz(?)"
                connection.execute(f"INSERT INTO {SharedTable.LEDGER} VALUES ({of})", row)  # noqa: S608 -- ours
        layout = replace(LAYOUT, component="part") if pipeline.window.merges else LAYOUT
        return settlement.measure(Mock(connection=connection, layout=layout), pipeline)


def point(minutes: float, *shares: float) -> SettlementPoint:
    p50, p90, p99, largest = shares
    return SettlementPoint(minutes=minutes, p50=p50, p90=p90, p99=p99, largest=largest)


def test_a_curve_begins_when_windows_close_and_ends_with_the_first_age_at_which_nothing_is_missing() -> None:
    assert measure([4, 5, 5], (0, 60), (0, 59), (1, 61)) == Settlement(
        points=(
            point(CLOSES, 0.2, 0.5, 0.5, 0.5),
            point(60, 0.2, 0.25, 0.25, 0.25),
            point(120, 0, 0, 0, 0),
        ),
        settled_minutes=120,
        settled=rate(3, 3),
    )


@pytest.mark.parametrize(
    ("spoilt", "settled", "hits"),
    [
        pytest.param(1, CLOSES, 99, id="99 of 100 windows are enough"),
        pytest.param(2, 120, 100, id="98 are not"),
    ],
)
def test_windows_are_settled_from_the_age_on_at_which_99_of_100_miss_nothing(
    spoilt: int, settled: float, hits: int
) -> None:
    found = measure([2] * 100, *((window, 60) for window in range(spoilt)))

    assert found is not None
    assert (found.settled_minutes, found.settled.hits, found.settled.of) == (settled, hits, 100)


@pytest.mark.parametrize(("records", "settled"), [(1_000, CLOSES), (999, 120.0)])
def test_one_record_in_a_thousand_may_be_missing_and_no_more(records: int, settled: float) -> None:
    found = measure([records], (0, 60))

    assert found is not None
    assert found.settled_minutes == settled


def test_windows_that_miss_records_at_every_age_are_never_settled_and_the_last_age_says_how_many_are() -> None:
    found = measure([2, 2, 2], (0, 100_000), (1, 20_000))

    assert found is not None
    assert (found.settled_minutes, found.settled) == (None, rate(2, 3))
    assert [one.minutes for one in found.points] == [CLOSES, 60, 120, 240, 480, 720, 1440, 2880, 7200, 14_400, 43_200]


def test_an_age_at_which_windows_close_is_there_once() -> None:
    found = measure([2], (0, 45))

    assert found is not None
    assert [one.minutes for one in found.points] == [CLOSES, 60]


def test_where_no_window_was_compared_there_is_no_curve() -> None:
    assert measure([]) is None


def test_a_late_record_is_missing_in_its_own_session_and_in_no_other_of_its_time_or_key() -> None:
    found = measure([2, 2], (0, 100_000), pipeline=replace(SALES, window=Sessions(gap="5 minutes")))

    assert found is not None
    assert (found.settled, found.settled_minutes) == (rate(3, 4), None)
    assert (found.points[0].p50, found.points[0].largest) == (0.0, 1.0)
