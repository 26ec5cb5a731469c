"""Chart of the error rates of the reconciler: each share on a line from 0 to 1, with a bar for its 95 % bounds."""

from markupsafe import Markup

from cutover.output import svg
from cutover.output.svg import Box, Scale
from cutover.reconcile.result.error_rates import ErrorRates
from cutover.reconcile.result.rates import Rate
from cutover.reconcile.result.text import share

_WIDTH, _HEIGHT = 160.0, 14.0


def rows(error_rates: ErrorRates | None) -> list[tuple[str, Rate, Markup]]:
    """Return what was measured: in words, as a share, as a picture; nothing without a self-test."""
    if error_rates is None:
        return []
    named_rates = (
        ("planted differences found", error_rates.detection_rate),
        ("false alarms in clean windows", error_rates.false_alarm_rate),
        ("causes named right", error_rates.right_cause_rate),
    )
    return [(name, rate, draw(name, rate)) for name, rate in named_rates]


def draw(name: str, rate: Rate) -> Markup:
    """Draw the bounds of a share between 0 and 1, and the share as a stroke across."""
    scale = Scale(low=0, high=1, start=2, end=_WIDTH - 2)
    middle = _HEIGHT / 2
    low, high = scale(rate.lower), scale(rate.upper)
    bounds = Box(left=low, top=middle - 3, width=max(high - low, 2.0), height=6)
    at = scale(rate.hits / rate.of) if rate.of else scale(0)
    label = f"{name}: {share(rate.lower)} to {share(rate.upper)}"
    parts = (
        svg.line(2, middle, _WIDTH - 2, middle, "axis"),
        svg.bar(bounds, "cause", label),
        *([svg.line(at, 1, at, _HEIGHT - 1, "settled")] if rate.of else []),
    )
    return svg.drawing(_WIDTH, _HEIGHT, label, *parts)
