"""All charts of the report: each drawn twice, for a wide and for a narrow page, so that its texts stay readable.

Pure functions from the result's data to SVG and to the table behind it. Without data they return None, and the page
says so in words.
"""

from collections.abc import Callable

from markupsafe import Markup

from cutover.output.svg import NARROW, WIDE, element
from cutover.reconcile.report.drawings import calendar, epochs, lateness, settlement, trend, waterfall, windows
from cutover.reconcile.report.drawings.chart import Chart
from cutover.reconcile.result.finding import SideNames, Waterfall
from cutover.reconcile.result.report import Report
from cutover.reconcile.result.text import numeric


def draw_both_widths(draw: Callable[[int], Markup]) -> Markup:
    """Return a drawing for wide and one for narrow pages; the style sheet shows one of them."""
    return element("div", draw(WIDE), class_="wide") + element("div", draw(NARROW), class_="narrow")


def trend_of_runs(result: Report) -> Chart | None:
    """Return the comparisons before this one and itself; one alone is no trend."""
    if len(result.trend) < 2:  # noqa: PLR2004 -- a trend has two ends
        return None
    return Chart(
        picture=draw_both_widths(lambda width: trend.draw(result.trend, width)), table=trend.tabulate(result.trend)
    )


def calendar_of_windows(result: Report) -> Chart | None:
    """Return the days on which windows start, coloured by their worst cause."""
    if not result.finding.days:
        return None
    return Chart(
        picture=draw_both_widths(lambda width: calendar.draw(result.finding.days, width)),
        table=calendar.tabulate(result.finding.days),
    )


def waterfalls(result: Report, labels: SideNames) -> list[tuple[Waterfall, Chart | None]]:
    """Return each measure with its waterfall; None where nothing stands between the two totals."""

    def picture(steps_of_measure: Waterfall) -> Chart | None:
        if all(numeric(step.amount) == 0 for step in steps_of_measure.steps):
            return None
        drawings = draw_both_widths(lambda width: waterfall.draw(steps_of_measure, labels, width))
        return Chart(picture=drawings, table=waterfall.tabulate(steps_of_measure, labels))

    return [(steps_of_measure, picture(steps_of_measure)) for steps_of_measure in result.finding.waterfall]


def windows_over_time(result: Report, labels: SideNames) -> Chart | None:
    """Return both sides by window and the rows that differ."""
    if not windows.bins(result.finding.window_series, 1)[1]:
        return None
    measure, series = (
        result.finding.waterfall[0].measure if result.finding.waterfall else "rows",
        result.finding.window_series,
    )
    return Chart(
        picture=draw_both_widths(lambda width: windows.draw(series, measure, labels, width)),
        table=windows.tabulate(series, measure, labels),
    )


def lateness_histogram(result: Report) -> Chart | None:
    """Return how late the late records were."""
    histogram = result.finding.lateness_histogram
    if not any(lateness_bin.events for lateness_bin in histogram):
        return None
    return Chart(
        picture=draw_both_widths(lambda width: lateness.draw(histogram, width)), table=lateness.tabulate(histogram)
    )


def settlement_curve(result: Report) -> Chart | None:
    """Return what the log and the stream's answer hold of windows, by age."""
    curve = result.settlement
    if curve is None:
        return None
    return Chart(
        picture=draw_both_widths(lambda width: settlement.draw(curve, width)), table=settlement.tabulate(curve)
    )


def watermark_over_epochs(result: Report) -> Chart | None:
    """Draw watermark and newest event by epoch, wide and narrow; None without epochs."""
    epochs_series = result.finding.epochs_series
    if not epochs_series:
        return None
    return Chart(
        picture=draw_both_widths(lambda width: epochs.draw(epochs_series, width)), table=epochs.tabulate(epochs_series)
    )
