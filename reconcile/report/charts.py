"""All charts of the report: each drawn twice, for a wide and for a narrow page, so that its texts stay readable.

Pure functions from the result's data to SVG and to the table behind it. Without data they return None, and the page
says so in words.
"""

from collections.abc import Callable

from markupsafe import Markup

from cutover.output.svg import NARROW, WIDE, element
from cutover.reconcile.report.drawings import calendar, epochs, lateness, settlement, trend, waterfall, windows
from cutover.reconcile.report.drawings.chart import Chart
from cutover.reconcile.result.outcome import Reconciliation, Waterfall
from cutover.reconcile.result.text import numeric


def both(draw: Callable[[int], Markup]) -> Markup:
    """Return a drawing for wide and one for narrow pages; the style sheet shows one of them."""
    return element("div", draw(WIDE), class_="wide") + element("div", draw(NARROW), class_="narrow")


def trend_of_runs(result: Reconciliation) -> Chart | None:
    """Return the comparisons before this one and itself; one alone is no trend."""
    if len(result.trend) < 2:  # noqa: PLR2004 -- a trend has two ends
        return None
    return Chart(picture=both(lambda width: trend.draw(result.trend, width)), table=trend.tabulate(result.trend))


def calendar_of_windows(result: Reconciliation) -> Chart | None:
    """Return the days on which windows start, coloured by their worst cause."""
    if not result.days:
        return None
    return Chart(picture=both(lambda width: calendar.draw(result.days, width)), table=calendar.tabulate(result.days))


def waterfalls(result: Reconciliation) -> list[tuple[Waterfall, Chart | None]]:
    """Return each measure with its waterfall; None where nothing stands between the two totals."""

    def picture(one: Waterfall) -> Chart | None:
        if all(numeric(step.amount) == 0 for step in one.steps):
            return None
        drawn = both(lambda width: waterfall.draw(one, result.sides, width))
        return Chart(picture=drawn, table=waterfall.tabulate(one, result.sides))

    return [(one, picture(one)) for one in result.waterfall]


def windows_over_time(result: Reconciliation) -> Chart | None:
    """Return both sides by window and the rows that differ."""
    if not windows.bins(result.window_series, 1)[1]:
        return None
    measure, series = result.waterfall[0].measure if result.waterfall else "rows", result.window_series
    return Chart(
        picture=both(lambda width: windows.draw(series, measure, result.sides, width)),
        table=windows.tabulate(series, measure, result.sides),
    )


def lateness_histogram(result: Reconciliation) -> Chart | None:
    """Return how late the late records were."""
    found = result.lateness_histogram
    if not any(one.events for one in found):
        return None
    return Chart(picture=both(lambda width: lateness.draw(found, width)), table=lateness.tabulate(found))


def settlement_curve(result: Reconciliation) -> Chart | None:
    """Return what the log and the stream's answer hold of windows, by age."""
    found = result.settlement
    if found is None:
        return None
    return Chart(picture=both(lambda width: settlement.draw(found, width)), table=settlement.tabulate(found))


def watermark_over_epochs(result: Reconciliation) -> Chart | None:
    """Draw watermark and newest event by epoch, wide and narrow; None without epochs."""
    found = result.epochs_series
    if not found:
        return None
    return Chart(picture=both(lambda width: epochs.draw(found, width)), table=epochs.tabulate(found))
