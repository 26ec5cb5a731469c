"""Plots of figures: bars with their spread, or curves over time, drawn with the elements of the report."""

from collections.abc import Sequence
from statistics import median

from markupsafe import Markup

from benchmarks.results.figure import Curve, Figure
from cutover.output import svg
from cutover.output.svg import Box, Scale, draw_line, draw_path, draw_text, element
from cutover.reconcile.report.drawings import chart

WIDTH, BAR, LEFT = 760, 34, 190
STYLE = """
svg { font: 13px system-ui, sans-serif; background: #ffffff; }
text { fill: #59626d; } .name { fill: #1d2126; } .title { fill: #1d2126; font-weight: 600; font-size: 15px; }
.axis { stroke: #8a929c; } .grid { stroke: #e5e2da; } .mark { stroke: #b3261e; stroke-dasharray: 4 3; }
.bar { fill: #d99a3d; } .ours { fill: #2a62b0; } .spread { stroke: #1d2126; stroke-width: 1.5; }
.line0 { stroke: #2a62b0; stroke-width: 2; } .line1 { stroke: #d99a3d; stroke-width: 2; }
.key0 { fill: #2a62b0; } .key1 { fill: #d99a3d; }
"""


def draw(figure: Figure) -> Markup:
    """Draw the plot of a figure."""
    return _draw_curves(figure.curve, figure.title) if figure.curve is not None else _draw_bars(figure)


def _wrap_svg(height: float, label: str, parts: Sequence[Markup]) -> Markup:
    style = element("style", Markup(STYLE))  # noqa: S704 -- the constant above
    title = draw_text(12, 26, label, class_="title")
    attributes: dict[str, str | float] = {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {WIDTH} {height:g}"}
    return element("svg", style, title, *parts, width=WIDTH, height=height, role="img", aria_label=label, **attributes)


def _draw_bars(figure: Figure) -> Markup:
    top = 66
    box = Box(left=LEFT, top=top, width=WIDTH - LEFT - 110, height=BAR * len(figure.samples))
    marks = svg.ticks(0, max(max(numbers) for numbers in figure.samples.values()))
    scale = Scale(low=0, high=marks[-1], start=box.left, end=box.right)
    parts = [draw_text(12, top - 12, f"{figure.unit}, median, lowest to highest")]
    for mark in marks:
        parts.append(draw_line(scale(mark), box.top, scale(mark), box.bottom, "grid"))
        parts.append(draw_text(scale(mark), box.bottom + 18, chart.format_axis_value(mark), anchor="middle"))
    for place, (name, numbers) in enumerate(figure.samples.items()):
        parts += _draw_bar(box.top + place * BAR, name, numbers, scale)
    return _wrap_svg(box.bottom + 34, figure.title, parts)


def _draw_bar(top: float, name: str, numbers: Sequence[float], scale: Scale) -> list[Markup]:
    middle, low, high = median(numbers), min(numbers), max(numbers)
    box = Box(left=LEFT, top=top + 6, width=scale(middle) - LEFT, height=BAR - 12)
    y = top + BAR / 2
    return [
        draw_text(LEFT - 10, y + 4, name, anchor="end", class_="name"),
        svg.draw_bar(box, "ours" if name.startswith("ours") else "bar", f"{name}: {middle:g}"),
        draw_line(scale(low), y, scale(high), y, "spread"),
        draw_text(scale(high) + 8, y + 4, chart.format_axis_value(round(middle, 3 if middle < 10 else 0))),  # noqa: PLR2004 -- short
    ]


def _draw_curves(curve: Curve, title: str) -> Markup:
    box = Box(left=80, top=92, width=WIDTH - 110, height=240)
    points = [point for line_ in curve.lines.values() for point in line_]
    y, parts = chart.vertical(box, 0, max(value for _, value in points))
    end = max(at for at, _ in points)
    x = Scale(low=0, high=end, start=box.left, end=box.right)
    parts += chart.horizontal(box, [(x(at), chart.format_axis_value(at)) for at in svg.ticks(0, end, 8) if at <= end])
    parts += [draw_text(12, box.top - 12, curve.y), chart.unit(box, curve.x)]
    for place, (name, line_) in enumerate(curve.lines.items()):
        parts.append(draw_path([(x(at), y(value)) for at, value in line_], f"line{place % 2}"))
        parts.append(draw_text(200 + 180 * place, 52, name, class_=f"key{place % 2}"))
    for place, mark in enumerate(curve.marks):
        parts.append(draw_line(x(mark.at), box.top, x(mark.at), box.bottom, "mark"))
        parts.append(draw_text(x(mark.at) + 4, box.top + 12 + 14 * (place % 3), mark.text))
    return _wrap_svg(box.bottom + 50, f"{title}: {curve.title}", parts)
