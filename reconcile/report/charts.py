"""All charts of the report: each drawn twice, for a wide and for a narrow page, so that its texts stay readable.

Pure functions from the result's data to SVG. Without data they return None, and the page says so in words.
"""

from collections.abc import Callable

from markupsafe import Markup

from cutover.output.svg import NARROW, WIDE, element
from cutover.reconcile.report import epochs, lateness, waterfall, windows
from cutover.reconcile.result.outcome import Reconciliation, Waterfall
from cutover.reconcile.result.text import numeric


def both(draw: Callable[[int], Markup]) -> Markup:
    """Return a drawing for wide and one for narrow pages; the style sheet shows one of them."""
    return element("div", draw(WIDE), class_="wide") + element("div", draw(NARROW), class_="narrow")


def waterfalls(result: Reconciliation) -> list[tuple[Waterfall, Markup | None]]:
    """Return each measure with its waterfall; None where nothing stands between the two totals."""

    def picture(one: Waterfall) -> Markup | None:
        if all(numeric(step.amount) == 0 for step in one.steps):
            return None
        return both(lambda width: waterfall.draw(one, result.sides, width))

    return [(one, picture(one)) for one in result.waterfall]


def windows_over_time(result: Reconciliation) -> Markup | None:
    """Return both sides by window and the rows that differ."""
    if not windows.bins(result.window_series, 1)[1]:
        return None
    measure = result.waterfall[0].measure if result.waterfall else "rows"
    return both(lambda width: windows.draw(result.window_series, measure, result.sides, width))


def lateness_histogram(result: Reconciliation) -> Markup | None:
    """Return how late the late records were."""
    if not any(found.events for found in result.lateness_histogram):
        return None
    return both(lambda width: lateness.draw(result.lateness_histogram, width))


def watermark_over_epochs(result: Reconciliation) -> Markup | None:
    """Draw watermark and newest event by epoch, wide and narrow; None without epochs."""
    if not result.epochs_series:
        return None
    return both(lambda width: epochs.draw(result.epochs_series, width))
