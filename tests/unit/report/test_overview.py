"""Overview charts: calendar, trend, settlement curve, and waterfalls that add up exactly."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import Markup

from cutover.output.svg import NARROW, WIDE
from cutover.reconcile.report import page, sections
from cutover.reconcile.report.drawings import curves, windows
from cutover.reconcile.result.finding import SideNames, Verdict, Waterfall, WaterfallStep
from cutover.reconcile.result.parts import CalendarDay
from tests.support.history.reconciliations import flights
from tests.support.history.reports import change_report
from tests.support.pages import report_size
from tests.unit.report.test_charts import BOTH, inside

DAYS = st.lists(
    st.builds(
        CalendarDay,
        day=st.dates(datetime(1000, 1, 1).date(), datetime(9000, 1, 1).date()).map(str),  # noqa: DTZ001 -- dates
        windows=st.integers(1, 24),
        different=st.integers(0, 1),
        causes=st.dictionaries(st.sampled_from(["late", "future", "unexplained", "x"]), st.integers(0, 9)),
    ),
    min_size=1,
    max_size=40,
    unique_by=lambda calendar_day: calendar_day.day,
).map(lambda calendar_days: sorted(calendar_days, key=lambda calendar_day: calendar_day.day))


def day(text: str, **causes: int) -> CalendarDay:
    return CalendarDay(day=text, windows=24, different=1 if causes else 0, causes=causes)


def colours(picture: Markup) -> list[str]:
    return re.findall(r'class="(cause-\w+)"', picture)


@pytest.mark.parametrize(
    ("causes", "worst"),
    [
        ({"late": 9, "unexplained": 1}, "unexplained"),
        ({"late": 2, "future": 3}, "future"),
        ({"late": 2, "future": 2}, "late"),
        ({"late": 0}, "other"),
    ],
)
def test_day_is_coloured_by_its_worst_cause(causes: dict[str, int], worst: str) -> None:
    calendar_day = day("2026-03-01", **causes)

    assert windows.find_worst(calendar_day) == worst
    assert colours(windows.draw_calendar([calendar_day], WIDE)) == [f"cause-{worst}"]


def test_day_without_a_difference_has_no_cause() -> None:
    assert windows.find_worst(day("2026-03-01")) is None


def test_text_of_a_cause_is_never_a_css_class() -> None:
    calendar_day = CalendarDay(day="2026-03-01", windows=1, different=1, causes={'x" onload="alert(1)': 1})

    assert colours(windows.draw_calendar([calendar_day], WIDE)) == ["cause-other"]


@BOTH
@settings(deadline=None)
@given(calendar_days=DAYS)
def test_calendar_of_any_days_stays_inside_and_draws_each_that_differs(
    width: int, calendar_days: list[CalendarDay]
) -> None:
    picture = windows.draw_calendar(calendar_days, width)
    years = sorted({calendar_day.day[:4] for calendar_day in calendar_days})[-windows.YEARS_AT_MOST :]

    assert inside(picture)
    assert len(colours(picture)) == sum(
        1 for calendar_day in calendar_days if calendar_day.different and calendar_day.day[:4] in years
    )


def test_first_of_march_of_2026_is_in_the_ninth_week_on_a_sunday() -> None:
    picture = windows.draw_calendar([day("2026-03-01", late=1)], WIDE)
    box = next(iter(ET.fromstring(str(picture)).iter("rect"))).attrib  # noqa: S314 -- our own markup
    size = (WIDE - 34) / 53

    assert (int((float(box["x"]) - 34) / size), int((float(box["y"]) - 34) / size)) == (8, 6)


@settings(deadline=None)
@given(calendar_days=DAYS, max_days=st.integers(1, 12))
def test_months_and_years_hold_the_same_windows(calendar_days: list[CalendarDay], max_days: int) -> None:
    short = sections.shorten(calendar_days, max_days)

    def count(calendar_days: list[CalendarDay]) -> tuple[int, int, int]:
        return (
            sum(calendar_day.windows for calendar_day in calendar_days),
            sum(calendar_day.different for calendar_day in calendar_days),
            sum(sum(calendar_day.causes.values()) for calendar_day in calendar_days),
        )

    assert count(list(short)) == count(calendar_days)
    assert len({len(calendar_day.day) for calendar_day in short}) == 1
    assert inside(windows.draw_calendar(short, NARROW))


def test_hundred_thousand_windows_of_a_day_are_months() -> None:
    first_day = datetime(1950, 1, 1, tzinfo=UTC)
    all_days = [day(f"{first_day + timedelta(days=i):%Y-%m-%d}", late=1) for i in range(40_000)]

    short = sections.shorten(all_days)

    assert (len(short), short[0].day, short[0].windows) == (1315, "1950-01", 31 * 24)


def test_different_days_are_in_the_table_and_others_are_counted() -> None:
    chart_table = windows.tabulate([day("2026-03-01", late=2), day("2026-03-02"), day("2026-03-03", unexplained=1)])

    assert [row[0] for row in chart_table.rows] == ["2026-03-03", "2026-03-01"]
    assert chart_table.rows[1] == ("2026-03-01", "late 2 rows", "1", "24")
    assert chart_table.omission == "1 day with windows agree in full."


def test_long_table_counts_omitted_rows() -> None:
    all_days = [day(f"2026-{1 + i // 28:02}-{1 + i % 28:02}", late=1) for i in range(150)]

    assert "And 50 days more that differ, in the Parquet." in windows.tabulate(all_days).omission


@BOTH
def test_trend_and_curve_stay_inside(width: int) -> None:
    result = flights()
    assert result.settlement is not None

    assert inside(curves.draw_trend(result.trend, width))
    assert inside(curves.draw_settlement(result.settlement, width))


def test_trend_shows_diverged_runs() -> None:
    picture = curves.draw_trend(flights().trend, WIDE)

    assert picture.count("tone-bad") == 2
    assert [row[1] for row in curves.tabulate_trend(flights().trend).rows].count("Diverged") == 2


def test_one_comparison_is_no_trend() -> None:
    assert page.trend_of_runs(replace(flights(), trend=flights().trend[:1])) is None


def test_curve_with_a_single_age_is_drawn() -> None:
    curve = flights().settlement
    assert curve is not None

    assert inside(curves.draw_settlement(replace(curve, log=curve.log[3:4], stream=curve.stream[-1:]), WIDE))


NUMBERS = st.integers(-(10**20), 10**20) | st.decimals(-(10**9), 10**9, places=4).map(str)


@settings(deadline=None)
@given(start=NUMBERS, amounts=st.lists(NUMBERS, max_size=5))
def test_steps_that_lead_to_the_end_add_up_exactly(start: int | str, amounts: list[int | str]) -> None:
    end = sum(map(windows.exact, amounts), start=windows.exact(start))
    scale = 10**4
    total = str(end) if end.denominator == 1 else f"{end * scale}e-4"
    steps = tuple(WaterfallStep(cause="late", amount=amount) for amount in amounts)
    chart = Waterfall(measure="m", batch=start, steps=steps, streaming=total)

    assert windows.missing(chart) == 0
    assert windows.tabulate_waterfall(chart, SideNames()).omission == "The steps add up exactly."


def test_steps_that_miss_the_end_by_one_are_reported() -> None:
    chart = Waterfall(measure="m", batch=10**18, steps=(WaterfallStep(cause="late", amount=-3),), streaming=10**18 - 4)

    assert windows.missing(chart) == -1
    assert "but for \u22121" in windows.tabulate_waterfall(chart, SideNames()).omission


def test_every_section_has_a_template_and_a_place_in_the_page() -> None:
    for verdict in Verdict:
        result = change_report(flights(), verdict=verdict)
        html = page.render_page(result)
        ids = re.findall(r'<section id="([\w-]+)"', html)

        assert ids == [name for name, _ in page.sections(result)]


@pytest.mark.parametrize(
    ("windows", "hours"), [(100_000, 1), pytest.param(100_000, 24, marks=pytest.mark.long), (36_000, 1)]
)
def test_report_of_a_hundred_thousand_windows_is_small(windows: int, hours: int) -> None:
    size, _ = report_size.measure(windows, hours)

    assert size < 2_000_000


def test_huge_keys_are_truncated_with_their_length() -> None:
    result, long = report_size.make_largest(1_000), "\u4e2d<&" * 350_000
    key = {"customer": long}
    cells = tuple(replace(cell, key=key, streaming=long) for cell in result.finding.differences[:60])
    html = page.render_page(
        change_report(result, differences=cells, worst_keys=(replace(result.finding.worst_keys[0], key=key),))
    )

    assert len(html.encode()) < 2_000_000
    assert "\N{HORIZONTAL ELLIPSIS} (1,050,000 characters)" in html


def test_every_chart_has_a_table_behind_it() -> None:
    html = page.render_page(flights())

    assert html.count('<div class="narrow">') == html.count('<details class="data"') == 8


def test_heads_of_sections_are_in_order() -> None:
    levels = [
        int(level)
        for level in re.findall(r"<h([1-6])", page.render_page(change_report(flights(), verdict=Verdict.DIVERGED)))
    ]

    assert levels[0] == 1
    assert levels.count(1) == 1
    assert [pair for pair in pairwise(levels) if pair[1] > pair[0] + 1] == []
