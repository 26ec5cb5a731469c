"""Charts: their shapes, and no shape without data."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from cutover.output.svg import NARROW, WIDE
from cutover.reconcile.report import page, steps
from cutover.reconcile.report.drawings import curves, windows
from cutover.reconcile.result.finding import SideNames, Waterfall, WaterfallStep
from cutover.reconcile.result.measurements import LatenessBin, WindowPoint
from tests.support.history.reconciliations import START, flights, iso
from tests.support.history.reports import change_report, make_report

SIDES = SideNames()
BOTH = pytest.mark.parametrize("width", [WIDE, NARROW])


def hours(count: int, step: int = 1) -> tuple[WindowPoint, ...]:
    starts = [START + timedelta(hours=i * step) for i in range(count)]
    return tuple(WindowPoint(window_start=iso(s), streaming=9, batch=10, different_rows=1) for s in starts)


def shapes(picture: Markup, name: str) -> list[ET.Element]:
    return list(ET.fromstring(str(picture)).iter(name))  # noqa: S314 -- our own markup


def inside(picture: Markup) -> bool:
    """Check that every x coordinate lies inside the picture."""
    root = ET.fromstring(str(picture))  # noqa: S314 -- our own markup
    width = float(root.attrib["viewBox"].split()[2])
    positions = [float(e.attrib[name]) for e in root.iter() for name in ("x", "x1", "x2") if name in e.attrib]
    return all(-1 <= x <= width + 1 for x in positions)


def all_pictures(width: int) -> list[Markup]:
    result = flights()
    return [
        windows.draw_waterfall(result.finding.waterfall[0], SIDES, width),
        windows.draw_windows(result.finding.window_series, "flights", SIDES, width),
        curves.draw_lateness(result.finding.lateness_histogram, width),
        curves.draw_epochs(result.finding.epochs_series, width),
    ]


@BOTH
def test_pictures_are_well_formed_and_stay_inside(width: int) -> None:
    assert [inside(picture) for picture in all_pictures(width)] == [True] * 4


@given(st.lists(st.datetimes(datetime(1000, 1, 1), datetime(9000, 1, 1)), min_size=1, max_size=8))  # noqa: DTZ001 -- as UTC
def test_windows_of_any_years_are_drawn(starts: list[datetime]) -> None:
    points = [
        WindowPoint(window_start=iso(start.replace(tzinfo=UTC)), streaming=9, batch=10, different_rows=1)
        for start in starts
    ]

    assert inside(windows.draw_windows(points, "m", SIDES, NARROW))


@BOTH
def test_pictures_have_a_textual_description(width: int) -> None:
    labels = [ET.fromstring(str(p)).attrib["aria-label"] for p in all_pictures(width)]  # noqa: S314 -- our own markup

    assert labels[0] == "Waterfall of flights: batch 328,517, late \u2212115, unexplained 0, streaming 328,402"
    assert all(labels)


@BOTH
def test_a_year_of_windows_stays_small(width: int) -> None:
    assert len(windows.draw_windows(flights().finding.window_series, "flights", SIDES, width)) < 40_000


def test_waterfall_ends_at_the_sum_of_its_steps() -> None:
    steps = (WaterfallStep(cause="late", amount=-30), WaterfallStep(cause="future", amount=10))
    picture = windows.draw_waterfall(Waterfall(measure="m", batch=100, steps=steps, streaming=80), SIDES, WIDE)
    bars = [rect.attrib for rect in shapes(picture, "{*}rect") or shapes(picture, "rect")]
    late, future, final_width = (float(bar["width"]) for bar in bars[1:])

    assert (round(future / late, 2), round(final_width / late, 2)) == (round(10 / 30, 2), round(20 / 30, 2))


def test_waterfall_leaves_out_causes_without_a_share_but_never_unexplained() -> None:
    steps = (WaterfallStep(cause="future", amount=0), WaterfallStep(cause="unexplained", amount=0))
    picture = windows.draw_waterfall(Waterfall(measure="m", batch=1, steps=steps, streaming=1), SIDES, WIDE)

    assert ("future" in picture, "unexplained" in picture) == (False, True)


def test_equal_totals_have_no_waterfall() -> None:
    waterfall = Waterfall(measure="m", batch=1, steps=(WaterfallStep(cause="late", amount=0),), streaming=1)

    assert page.waterfalls(change_report(flights(), waterfall=(waterfall,)), SideNames()) == [(waterfall, None)]


@pytest.mark.parametrize(
    ("count", "step", "size"),
    [(5, 1, timedelta(hours=1)), (5, 24, timedelta(days=1)), (24 * 400, 1, timedelta(days=7))],
)
def test_windows_share_columns_as_narrow_as_possible(count: int, step: int, size: timedelta) -> None:
    assert windows.bins(hours(count, step), 380)[0] == size


def test_no_window_is_lost_in_columns() -> None:
    _, places = windows.bins(hours(24 * 50), 100)

    assert (sum(p.windows for p in places), sum(p.different for p in places)) == (24 * 50, 24 * 50)


def test_column_at_the_edge_shows_the_mean_of_fewer_windows() -> None:
    _, places = windows.bins(hours(24 * 50 + 1), 100)

    assert {place.mean("batch") for place in places} == {10}


def test_line_breaks_where_windows_are_missing() -> None:
    gap = (
        *hours(5),
        *(replace(p, window_start=iso(START + timedelta(days=2, hours=i))) for i, p in enumerate(hours(5))),
    )
    picture = windows.draw_windows(gap, "m", SIDES, WIDE)

    assert len(re.findall('class="side-batch"', picture)) == 2


def test_one_window_can_be_drawn() -> None:
    assert inside(windows.draw_windows(hours(1), "m", SIDES, NARROW))


def test_one_epoch_can_be_drawn() -> None:
    assert inside(curves.draw_epochs(flights().finding.epochs_series[:1], NARROW))


def test_epochs_before_the_first_watermark_can_be_drawn() -> None:
    first_point = replace(flights().finding.epochs_series[0], watermark=None, newest_event=None, lag=None)

    assert "no watermark yet" in curves.draw_epochs((first_point,), WIDE)


def test_thinning_keeps_the_largest_lag() -> None:
    series = flights().finding.epochs_series

    assert max(p.lag or 0 for p in curves.downsample_epochs(series, 20)) == max(p.lag or 0 for p in series)


def test_one_bin_of_lateness_can_be_drawn() -> None:
    assert inside(curves.draw_lateness((LatenessBin(from_minutes=0, to_minutes=30, events=3),), NARROW))


def test_chart_without_data_is_none() -> None:
    empty = make_report(pipeline="p", run_id="r", at="", verdict=flights().finding.verdict, exit_code=0, sentence="")
    pictures = (
        page.windows_over_time(empty, SideNames()),
        page.lateness_histogram(empty),
        page.watermark_over_epochs(empty),
    )

    assert pictures == (None, None, None)


def test_command_of_a_hostile_key_is_quoted_for_a_shell() -> None:
    change = replace(flights().finding.differences[0], key={"a": "x'; rm -rf /", "b": None})
    lines = [line for _, line in steps.commands(change_report(flights(), differences=(change,)))]

    assert lines[1].endswith("'x'\"'\"'; rm -rf /,null'")


def test_first_command_repeats_this_comparison() -> None:
    report = change_report(flights(), from_="2013-02-01T00:00:00Z")

    line = "cutover reconcile flights --cut 328 --from 2013-02-01T00:00:00Z --json"
    assert steps.commands(report)[0] == ("the same comparison again, at this cut", line)


def test_key_that_cannot_be_quoted_has_no_command() -> None:
    change = replace(flights().finding.differences[0], key={"a": "x" * 201})

    assert "explain" not in str(steps.commands(change_report(flights(), differences=(change,))))


def test_different_windows_have_a_recompute_command() -> None:
    cells = [
        replace(flights().finding.differences[0], window_start=f"2013-02-08T{hour}:00:00Z") for hour in (14, 14, 15)
    ]

    lines = [line for _, line in steps.commands(change_report(flights(), differences=tuple(cells)))]

    assert "cutover repair flights --window 2013-02-08T14:00:00Z --window 2013-02-08T15:00:00Z" in lines
    none = [line for _, line in steps.commands(change_report(flights(), differences=()))]
    assert [line for line in none if "repair" in line] == []


def test_sessions_that_differ_are_recomputed_by_batch() -> None:
    report = flights()
    sessions = replace(report, finding=replace(report.finding, windows=replace(report.finding.windows, merges=True)))

    lines = [line for _, line in steps.commands(sessions)]

    assert "cutover batch flights && cutover reconcile flights" in lines
    assert not any("repair" in line for line in lines)
