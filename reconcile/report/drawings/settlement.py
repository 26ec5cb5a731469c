"""The settlement curve: what share of its records a window still misses, by its age; both axes by powers of ten."""

import math
from collections.abc import Sequence

from markupsafe import Markup

from cutover.output import svg
from cutover.output.svg import NARROW, Box, Scale
from cutover.reconcile.report.drawings import axes
from cutover.reconcile.report.drawings.chart import ChartTable
from cutover.reconcile.result.outcome import Settlement, SettlementPoint
from cutover.reconcile.result.text import minutes, share

SHARES = ("p50", "p90", "p99", "largest")
NAMES = {"p50": "half of the windows", "p90": "90 %", "p99": "99 %", "largest": "the worst window"}
_LETTER = 7.0  # pixels, at most, of a letter of a label
_LEAST = 1e-6
"""Shares below it, and zero, are drawn on the floor: an axis by powers of ten has no zero."""


def draw(found: Settlement, width: int) -> Markup:
    """Return a line for each share of windows, and the age from which a number can be trusted."""
    points = found.points
    box = Box(left=62, top=30, width=width - 78, height=170 if width <= NARROW else 190)
    floor = _find_floor(points)
    high = max(1e-3, *(getattr(point, name) for point in points for name in SHARES))
    up = Scale(low=math.log10(floor), high=math.ceil(math.log10(high)), first=box.bottom, last=box.top)
    ages = [max(point.minutes, 1.0) for point in points]
    along = Scale(low=math.log10(ages[0]), high=math.log10(ages[-1]), first=box.left, last=box.right)
    parts = [axes.caption(box, "share of its records that a window misses")]
    for power in range(round(up.low), round(up.high) + 1):
        y = up(power)
        label = "0" if power == round(up.low) else share(10.0**power)
        parts += [svg.line(box.left, y, box.right, y, "grid"), svg.text(box.left - 8, y + 4, label, anchor="end")]
    for name in SHARES:
        line = [
            (along(math.log10(age)), up(math.log10(max(getattr(point, name), floor))))
            for age, point in zip(ages, points, strict=True)
        ]
        parts.append(svg.path(line, f"share-{name}"))
    if found.settled_minutes is not None:
        x = along(math.log10(max(found.settled_minutes, 1.0)))
        parts.append(svg.line(x, box.top, x, box.bottom, "settled"))
    parts += axes.horizontal(box, _pick_marks([(along(math.log10(age)), minutes(age)) for age in ages]))
    parts.append(axes.unit(box, "age of the window"))
    return svg.drawing(width, box.bottom + 44, _say(found), *parts)


def _pick_marks(marks: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """Leave out marks whose labels would lie on one another."""
    found = marks[:1]
    for x, label in marks[1:]:
        if x - found[-1][0] > _LETTER * (len(label) + len(found[-1][1])) / 2 + 10:
            found.append((x, label))
    return found


def _find_floor(points: Sequence[SettlementPoint]) -> float:
    """Return the power of ten below the least share that is not zero."""
    least = min((v for point in points for name in SHARES if (v := getattr(point, name)) > 0), default=1e-3)
    return float(10.0 ** (math.floor(math.log10(max(least, _LEAST))) - 1))


def _say(found: Settlement) -> str:
    first, last = found.points[0], found.points[-1]
    return (
        f"Settlement curve: the worst window misses {share(first.largest)} of its records at an age of "
        f"{minutes(first.minutes)}, {share(last.largest)} at {minutes(last.minutes)}"
    )


def tabulate(found: Settlement) -> ChartTable:
    """Return what windows miss by age, as shares of their records."""
    rows = tuple((minutes(point.minutes), *(share(getattr(point, name)) for name in SHARES)) for point in found.points)
    heads = ("age of the window", *(f"missing in {NAMES[name]}" for name in SHARES))
    return ChartTable(title="What windows miss, by their age", heads=heads, rows=rows)
