"""A chart and the table behind it: the same data twice, for people who look at shapes and for those who read.

All charts share these axes and legends.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from cutover.output import svg
from cutover.output.svg import Box, Scale
from cutover.reconcile.result.text import format_number

UNEXPLAINED = "unexplained"
KNOWN = (UNEXPLAINED, "late", "future", "duplicate", "malformed", "dimension")
"""Causes with a separate colour, the worst first; a cause that is none of them is drawn as `other`."""

Parts = list[Markup]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartTable:
    """Data of a chart as words and numbers for readers."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1  # leading columns that hold words or times; the others hold numbers
    omission: str = ""  # what the rows leave out, in one sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A picture and its table."""

    picture: Markup
    table: ChartTable


def tone(cause: str) -> str:
    """Return the class of the style sheet for a cause; a text from data never becomes one."""
    return f"cause-{cause if cause in KNOWN else 'other'}"


def format_axis_value(value: float) -> str:
    """Return an axis value: whole numbers without a point, thousands and millions short."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return format_number(round(value / (1e3 if unit == "k" else size), 3)) + unit
    return format_number(int(value) if value == int(value) else value)


def vertical(
    box: Box, low: float, high: float, *, about: int = 4, label: Callable[[float], str] = format_axis_value
) -> tuple[Scale, Parts]:
    """Return the scale of a y axis over round values, and its grid with labels."""
    marks = svg.ticks(low, high, about)
    scale = Scale(low=marks[0], high=marks[-1], start=box.bottom, end=box.top)
    parts: Parts = []
    for mark in marks:
        parts.append(svg.draw_line(box.left, scale(mark), box.right, scale(mark), "axis" if mark == 0 else "grid"))
        parts.append(svg.draw_text(box.left - 8, scale(mark) + 4, label(mark), anchor="end"))
    return scale, parts


def horizontal(box: Box, marks: Sequence[tuple[float, str]]) -> Parts:
    """Return an x axis: a tick and its label at each pixel position; labels at the edges stay inside."""
    parts = [svg.draw_line(box.left, box.bottom, box.right, box.bottom, "axis")]
    for x, label in marks:
        parts.append(svg.draw_line(x, box.bottom, x, box.bottom + 4, "axis"))
        parts.append(svg.draw_text(x, box.bottom + 18, label, anchor=_anchor(box, x)))
    return parts


def _anchor(box: Box, x: float) -> str:
    if x - box.left < 12:  # noqa: PLR2004 -- half a short label
        return "start"
    return "end" if box.right - x < 12 else "middle"  # noqa: PLR2004 -- the same


def caption(box: Box, words: str) -> Markup:
    """Return what a y axis counts, above it."""
    return svg.draw_text(0, box.top - 12, words, class_="caption")


def unit(box: Box, words: str) -> Markup:
    """Return what an x axis counts, below its labels."""
    return svg.draw_text(box.right, box.bottom + 36, words, anchor="end", class_="caption")
