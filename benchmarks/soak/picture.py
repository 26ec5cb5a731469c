"""Plot of the soak test: commit time and number of files by epoch, for the driver and for the Committer alone."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from cutover.output import svg
from cutover.output.svg import Box, Scale, draw_path, draw_text, element
from cutover.reconcile.report.drawings import chart

WIDTH, PANEL, GAP, LEFT = 760, 170, 66, 80
STYLE = """
svg { font: 13px system-ui, sans-serif; background: #ffffff; }
text { fill: #59626d; } .title { fill: #1d2126; font-weight: 600; font-size: 15px; }
.axis { stroke: #8a929c; } .grid { stroke: #e5e2da; }
.line0 { stroke: #2a62b0; stroke-width: 1.8; } .line1 { stroke: #d99a3d; stroke-width: 1.8; }
.key0 { fill: #2a62b0; } .key1 { fill: #d99a3d; }
"""
Points = Sequence[tuple[float, float]]


def draw(figures: Mapping[str, Any]) -> Markup:
    """Draw the plot."""
    real, alone = figures["driver"], figures["alone"]
    panels = [
        ("Driver: commit, ms", _times(real["curve"])),
        ("Driver: files", _files(real["samples"])),
        ("Driver: memory (RSS), MiB", _memory(real["samples"])),
        ("Committer alone: commit, ms", _times(alone["curve"])),
        ("Committer alone / young table", _ratios(alone["curve"])),
        ("Committer alone: files", _files(alone["samples"])),
    ]
    parts: list[Markup] = []
    for place, (title, lines) in enumerate(panels):
        parts += _panel(50 + place * (PANEL + GAP), title, lines)
    height = 50 + len(panels) * (PANEL + GAP)
    style = element("style", Markup(STYLE))  # noqa: S704 -- the constant above
    label = "Commit time, number of files and memory by epoch"
    attributes: dict[str, str | float] = {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {WIDTH} {height}"}
    return element("svg", style, *parts, width=WIDTH, height=height, role="img", aria_label=label, **attributes)


def _times(curve: Sequence[Mapping[str, Any]]) -> dict[str, Points]:
    # The first buckets are the warm-up of the JVM; their size would hide the others.
    return {name: [(c["epoch"], c["commit_ms"][name]) for c in curve[2:]] for name in ("p50", "p99")}


def _ratios(curve: Sequence[Mapping[str, Any]]) -> dict[str, Points]:
    return {"p50 of commit / p50 of control": [(c["epoch"], c["commit_to_control"].get("p50", 0)) for c in curve]}


def _files(samples: Sequence[Mapping[str, Any]]) -> dict[str, Points]:
    return {"in the log's folder": _of(samples, "log"), "listed by the table": _of(samples, "listed")}


def _memory(samples: Sequence[Mapping[str, Any]]) -> dict[str, Points]:
    return {"Python": _of(samples, "driver_rss_mib"), "JVM": _of(samples, "jvm_rss_mib")}


def _of(samples: Sequence[Mapping[str, Any]], name: str) -> Points:
    return [(s["epoch"], s[name]) for s in samples if s[name] is not None]


def _panel(top: float, title: str, lines: Mapping[str, Points]) -> list[Markup]:
    box = Box(left=LEFT, top=top + 14, width=WIDTH - LEFT - 30, height=PANEL - 14)
    points = [point for line in lines.values() for point in line]
    y, parts = chart.vertical(box, 0, max((value for _, value in points), default=1))
    end = max((at for at, _ in points), default=1)
    x: Callable[[float], float] = Scale(low=0, high=end, start=box.left, end=box.right)
    parts += chart.horizontal(box, [(x(at), chart.format_axis_value(at)) for at in svg.ticks(0, end, 8) if at <= end])
    parts.append(draw_text(12, top, title, class_="title"))
    for place, (name, line) in enumerate(lines.items()):
        parts.append(draw_path([(x(at), y(value)) for at, value in line], f"line{place}"))
        parts.append(draw_text(360 + 180 * place, top, name, class_=f"key{place}"))
    parts.append(chart.unit(box, "epoch"))
    return parts
