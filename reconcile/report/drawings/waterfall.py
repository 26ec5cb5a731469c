"""The waterfall of one measure: from the trusted total, cause by cause, to the judged one.

Bars start at the difference, not at the total: 115 records of 328,521 would not be seen on an axis that begins at 0,
and an axis that begins elsewhere would lie.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from markupsafe import Markup

from cutover.output import svg
from cutover.output.svg import NARROW, Box, Scale
from cutover.reconcile.report.drawings import chart
from cutover.reconcile.report.drawings.chart import ChartTable, tone
from cutover.reconcile.result.codec import Scalar
from cutover.reconcile.result.finding import SideNames, Waterfall, WaterfallStep
from cutover.reconcile.result.text import format_number, format_signed, numeric

ROW, BAR = 36, 18


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One line of the picture: a bar from one difference to another."""

    name: str
    start: float
    end: float
    value: str
    class_: str


def draw(waterfall: Waterfall, sides: SideNames, width: int) -> Markup:
    """Draw a bar a cause, from the trusted total to the judged one."""
    rows = list(_rows(waterfall, sides))
    narrow = width <= NARROW
    left_margin, right = (92, 84) if narrow else (150, 130)
    box = Box(left=left_margin, top=26, width=width - left_margin - right, height=ROW * len(rows))
    low, high = min(min(r.start, r.end) for r in rows), max(max(r.start, r.end) for r in rows)
    marks = svg.ticks(low, high, 2 if narrow else 5) if high > low else [0.0]
    scale = Scale(low=marks[0], high=marks[-1], start=box.left, end=box.right)
    parts = [svg.draw_line(scale(m), box.top, scale(m), box.bottom, "axis" if m == 0 else "grid") for m in marks]
    for index, row in enumerate(rows):
        parts += _line(row, box, scale, box.top + ROW * index + ROW / 2)
    parts += [
        svg.draw_text(scale(mark), box.bottom + 18, chart.format_axis_value(mark), anchor="middle") for mark in marks
    ]
    parts.append(svg.draw_text(box.left, 14, f"difference from {sides.expected}", class_="caption"))
    steps = ", ".join(f"{row.name} {row.value}" for row in rows)
    return svg.drawing(width, box.bottom + 28, f"Waterfall of {waterfall.measure}: {steps}", *parts)


def _rows(waterfall: Waterfall, sides: SideNames) -> Iterator[_Row]:
    running = 0.0
    yield _Row(name=sides.expected, start=0, end=0, value=format_number(waterfall.batch), class_="total")
    for step in _telling(waterfall):
        end = running + numeric(step.amount)
        yield _Row(name=step.cause, start=running, end=end, value=format_signed(step.amount), class_=tone(step.cause))
        running = end
    yield _Row(name=sides.actual, start=0, end=running, value=format_number(waterfall.streaming), class_="total")


def _telling(waterfall: Waterfall) -> list[WaterfallStep]:
    """Return the steps that move something; `unexplained` always, since readers check its zero."""
    return [s for s in waterfall.steps if numeric(s.amount) != 0 or s.cause == "unexplained"]


def _line(row: _Row, box: Box, scale: Scale, y: float) -> list[Markup]:
    x1, x2 = sorted((scale(row.start), scale(row.end)))
    shape = Box(left=x1 - 1.5 if x1 == x2 else x1, top=y - BAR / 2, width=max(x2 - x1, 3), height=BAR)
    return [
        svg.draw_text(box.left - 12, y + 4, row.name, anchor="end", class_="label"),
        svg.draw_bar(shape, row.class_, f"{row.name}: {row.value}"),
        svg.draw_text(box.right + 12, y + 4, row.value, class_="value"),
    ]


def tabulate(waterfall: Waterfall, sides: SideNames) -> ChartTable:
    """Return the steps with the total after each, added up exactly; the last sentence says whether they meet."""
    rows = [(sides.expected, "", format_number(waterfall.batch))]
    remainder = missing(waterfall)
    total = Fraction() if remainder is None else exact(waterfall.batch)
    for step in _telling(waterfall):
        total += Fraction() if remainder is None else exact(step.amount)
        rows.append((step.cause, format_signed(step.amount), "" if remainder is None else _format_exact(total)))
    rows.append((sides.actual, "", format_number(waterfall.streaming)))
    heads = ("step", "adds", f"{waterfall.measure} after it")
    return ChartTable(
        title=f"{waterfall.measure}, step by step",
        heads=heads,
        rows=tuple(rows),
        omission=_describe_remainder(remainder),
    )


def exact(value: Scalar) -> Fraction:
    """Return a value as the decimal that it is written as; null counts as 0.

    Raises:
        ValueError: It is no number, or none that is finite.
    """
    return Fraction(str(0 if value is None else value))


def _format_exact(value: Fraction) -> str:
    return format_number(int(value) if value.denominator == 1 else float(value))


def missing(waterfall: Waterfall) -> Fraction | None:
    """Return by how much the steps fail to lead from one total to the other, exactly; None for what is no number."""
    try:
        steps = sum((exact(step.amount) for step in waterfall.steps), start=Fraction())
        return exact(waterfall.streaming) - exact(waterfall.batch) - steps
    except ValueError:
        return None


def _describe_remainder(remainder: Fraction | None) -> str:
    if remainder is None:
        return "A value is no number, so the steps cannot be added up."
    if remainder == 0:
        return "The steps add up exactly."
    return f"The steps add up but for {_format_exact(remainder)}: sums of doubles are rounded."
