"""Chart of late records: a histogram over the time since their window stopped accepting."""

from collections.abc import Sequence

from markupsafe import Markup

from cutover.output import svg
from cutover.output.svg import NARROW, Box
from cutover.reconcile.report.drawings import axes
from cutover.reconcile.report.drawings.chart import ChartTable
from cutover.reconcile.result.finding import LatenessBin
from cutover.reconcile.result.text import minutes, number, share


def draw(histogram: Sequence[LatenessBin], width: int) -> Markup:
    """Return the histogram as SVG: one place a bin, its edges below; bins may be of unequal width."""
    narrow = width <= NARROW
    box = Box(left=44, top=30, width=width - 56, height=150 if narrow else 180)
    scale, parts = axes.vertical(box, 0, max(1, *(b.events for b in histogram)), label=_format_whole)
    step = box.width / len(histogram)
    for index, lateness_bin in enumerate(histogram):
        y = scale(lateness_bin.events)
        bar_left, inner = box.left + index * step + step * 0.08, step * 0.84
        edges = f"{_edge(lateness_bin.from_minutes)} to {_edge(lateness_bin.to_minutes)}"
        title = f"{edges}: {number(lateness_bin.events)} records"
        parts.append(svg.bar(Box(left=bar_left, top=y, width=inner, height=box.bottom - y), "cause", title))
        if lateness_bin.events and step > 26:  # noqa: PLR2004 -- a narrower bar has no room for its number
            parts.append(
                svg.text(
                    bar_left + inner / 2, y - 5, number(lateness_bin.events), anchor="middle", class_="value-small"
                )
            )
    parts += axes.horizontal(box, _edges(histogram, box, step, room=58 if narrow else 64))
    parts.append(axes.caption(box, "late records"))
    parts.append(axes.unit(box, "time since the window stopped accepting"))
    total = sum(b.events for b in histogram)
    return svg.drawing(width, box.bottom + 44, f"Lateness of {total} late records", *parts)


def _format_whole(value: float) -> str:
    return axes.format_axis_value(value) if value == int(value) else ""


def _edge(value: float) -> str:
    return "longer" if value == float("inf") else minutes(value)


def _edges(histogram: Sequence[LatenessBin], box: Box, step: float, room: float) -> list[tuple[float, str]]:
    label_step = max(1, -(-int(room) // max(int(step), 1)))
    values = [b.from_minutes for b in histogram] + [histogram[-1].to_minutes]
    return [(box.left + i * step, _edge(value)) for i, value in enumerate(values) if i % label_step == 0]


def tabulate(histogram: Sequence[LatenessBin]) -> ChartTable:
    """Return late records by how late they were, and which share of them was no later."""
    total, rows, upto = sum(b.events for b in histogram), [], 0
    for lateness_bin in histogram:
        upto += lateness_bin.events
        edges = f"{_edge(lateness_bin.from_minutes)} to {_edge(lateness_bin.to_minutes)}"
        rows.append((edges, number(lateness_bin.events), share(upto / max(total, 1))))
    return ChartTable(
        title="Late records by time since the window stopped accepting",
        heads=("late by", "records", "so late or less"),
        rows=tuple(rows),
    )
