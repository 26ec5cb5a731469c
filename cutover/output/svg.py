"""SVG elements with escaped texts and attributes, and scales from data to pixels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from markupsafe import Markup, escape

WIDE, NARROW = 960, 350


def element(name: str, *children: str, **attributes: str | float) -> Markup:
    """Return one element; `class_` is `class`, `text_anchor` is `text-anchor`; strings are escaped, Markup is not."""
    attributes_text = "".join(f' {_name(key)}="{escape(_value(value))}"' for key, value in attributes.items())
    return Markup(f"<{name}{attributes_text}>{''.join(escape(child) for child in children)}</{name}>")  # noqa: S704 -- escaped


def _name(key: str) -> str:
    return "viewBox" if key == "viewBox" else key.rstrip("_").replace("_", "-")


def _value(value: str | float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def drawing(width: float, height: float, label: str, *parts: str) -> Markup:
    """Return a complete drawing with a label for screen readers."""
    box = f"0 0 {width:g} {height:g}"
    return element("svg", *parts, viewBox=box, role="img", aria_label=label, class_="chart")


def draw_text(x: float, y: float, content: str, *, anchor: str = "start", class_: str = "tick") -> Markup:
    """Draw escaped text at a point, in pixels; `anchor` as in SVG."""
    return element("text", content, x=float(x), y=float(y), text_anchor=anchor, class_=class_)


def draw_line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """Draw a straight line, coordinates in pixels."""
    return element("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=class_)


def draw_bar(box: "Box", class_: str, title: str) -> Markup:
    """Draw a rectangle with a tooltip; none if the title is empty."""
    height, width = max(box.height, 0.0), max(box.width, 0.0)
    shape = {"x": float(box.left), "y": float(box.top), "width": float(width), "height": float(height), "rx": 1.5}
    return element("rect", *([element("title", title)] if title else []), class_=class_, **shape)


def draw_path(points: Sequence[tuple[float, float]], class_: str) -> Markup:
    """Draw straight lines through points; a single point becomes a dot."""
    steps = " ".join(f"{'M' if i == 0 else 'L'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(points))
    steps += f" L{points[0][0]:.1f} {points[0][1]:.1f}" if len(points) == 1 else ""  # its round ends make a dot
    return element("path", d=steps, class_=class_, fill="none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """Rectangle in pixels; y grows downwards."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """In pixels."""
        return self.left + self.width

    @property
    def bottom(self) -> float:
        """In pixels; y grows downwards."""
        return self.top + self.height


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Linear scale from [low, high] in units of the data to [start, end] in pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Map a value to pixels; to the middle if low and high are equal."""
        if self.high == self.low:
            return (self.start + self.end) / 2
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Return round values from at or below `low` to at or above `high`."""
    if high <= low:
        return [low, low + 1]
    raw = (high - low) / max(about, 1)
    size = 10 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= raw * 0.999)
    start, end = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 10) for i in range(start, end + 1)]


_STEPS = [timedelta(minutes=m) for m in (1, 5, 15, 30, 60, 180, 360, 720, 1440, 2880, 10080)]


def time_ticks(start: datetime, end: datetime, about: int) -> list[tuple[datetime, str]]:
    """Return round times inside [start, end], each with its label: a clock time, a day or a month."""
    step = next((s for s in _STEPS if (end - start) / s <= about), None)
    if step is None:
        return _months(start, end, about)
    epoch = datetime(1970, 1, 5, tzinfo=UTC)  # a Monday, on which weeks start
    at = epoch + math.ceil((start - epoch) / step) * step
    form = "%H:%M" if step < timedelta(days=1) else "%d %b"
    time_labels = []
    while at <= end:
        time_labels.append((at, at.strftime("%d %b" if form == "%H:%M" and (at.hour, at.minute) == (0, 0) else form)))
        at += step
    return time_labels


def _months(start: datetime, end: datetime, about: int) -> list[tuple[datetime, str]]:
    count = (end.year - start.year) * 12 + end.month - start.month + 1
    step = next((s for s in (1, 2, 3, 4, 6, 12, 24, 60, 120, 600) if count / s <= about), 12_000)
    time_labels = []
    for index in range(start.year * 12, end.year * 12 + 12, step):
        at = datetime(index // 12, index % 12 + 1, 1, tzinfo=UTC)
        if start <= at <= end:
            time_labels.append((at, at.strftime("%Y" if at.month == 1 else "%b")))
    return time_labels
