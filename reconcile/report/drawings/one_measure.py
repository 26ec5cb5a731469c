"""Charts of one measure: its total on both sides, and its windows over time.

The waterfall leads from the trusted total, cause by cause, to the judged one. Its bars start at the difference, not at
the total: 115 records of 328,521 would not be seen on an axis that begins at 0, and an axis that begins elsewhere would
lie. Windows over time show both sides of the measure above and the rows that differ below, on one time axis.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise

from markupsafe import Markup

from cutover.counts import count_clause
from cutover.output import svg
from cutover.output.svg import NARROW, Box, Scale
from cutover.reconcile.report.drawings import chart
from cutover.reconcile.report.drawings.chart import ChartTable, tone
from cutover.reconcile.result.codec import Scalar
from cutover.reconcile.result.finding import SideNames, Waterfall, WaterfallStep, WindowPoint
from cutover.reconcile.result.text import duration, format_number, format_signed, numeric, parse_iso_time
from cutover.timestamps import format_moment

ROW, BAR = 36, 18


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One line of the picture: a bar from one difference to another."""

    name: str
    start: float
    end: float
    value: str
    class_: str


def draw_waterfall(waterfall: Waterfall, sides: SideNames, width: int) -> Markup:
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


def tabulate_waterfall(waterfall: Waterfall, sides: SideNames) -> ChartTable:
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


_SIZES = [timedelta(minutes=m) for m in (1, 5, 15, 30, 60, 180, 360, 720, 1440, 10080, 40320)]
_DAY = timedelta(days=1)
_MONDAY = datetime(1970, 1, 5, tzinfo=UTC)  # weeks start there
_LAST = datetime.max.replace(tzinfo=UTC)
SIDES = ("batch", "streaming")
ROWS_AT_MOST = 120


@dataclass(slots=True)
class Bin:
    """Windows that share a place on the axis: sums of the measure on each side."""

    start: datetime
    batch: float = 0.0
    streaming: float = 0.0
    windows: int = 0
    different: int = 0

    def mean(self, side: str) -> float:
        """Return a side's value of a window; a place at the edge holds fewer windows, its sum would seem to fall."""
        total = self.batch if side == "batch" else self.streaming
        return total / max(self.windows, 1)


def bins(series: Sequence[WindowPoint], places: int) -> tuple[timedelta, list[Bin]]:
    """Return the width of a place and the places that hold windows, in order; as fine as `places` allows."""
    timed = [(m, p) for p in series if (m := parse_iso_time(p.window_start)) is not None]
    points = sorted(timed, key=lambda pair: pair[0])
    if not points:
        return _DAY, []
    span = points[-1][0] - points[0][0]
    size = max(next((s for s in _SIZES if span / s < places), span / places), _narrowest([m for m, _ in points]))
    bins_by_start: dict[datetime, Bin] = {}
    origin = _MONDAY if size <= _SIZES[-1] else points[0][0]  # a place of years may begin before time does
    for at, point in points:
        start = origin + (at - origin) // size * size
        place = bins_by_start.setdefault(start, Bin(start))
        place.batch += numeric(point.batch)
        place.streaming += numeric(point.streaming)
        place.windows += point.windows
        place.different += point.different_rows
    return size, list(bins_by_start.values())


def _narrowest(starts: list[datetime]) -> timedelta:
    gaps = [b - a for a, b in pairwise(starts) if b > a]
    return min(gaps, default=timedelta(hours=1))


def draw_windows(series: Sequence[WindowPoint], measure: str, sides: SideNames, width: int) -> Markup:
    """Return both sides and the different rows by time as SVG."""
    narrow = width <= NARROW
    size, places = bins(series, 120 if narrow else 380)
    box = Box(left=52, top=30, width=width - 60, height=170 if narrow else 210)
    low = Box(left=box.left, top=box.bottom + 42, width=box.width, height=56)
    time = _time(places, size, box)
    values = [p.mean(side) for p in places for side in SIDES]
    scale, parts = chart.vertical(box, min(0.0, *values), max(0.0, *values) or 1, about=5)
    for side in SIDES:
        runs = _runs([(p.start, p.mean(side)) for p in places], size)
        parts += [_side(run, f"side-{side}", time, scale, size) for run in runs]
    per = _caption(measure, places, size)
    parts.append(chart.caption(box, per))
    parts += _draw_different(places, size, time, low)
    parts += chart.horizontal(low, _time_marks(places, size, time, 4 if narrow else 12))
    count = sum(p.different for p in places)
    label = f"{per}, {sides.expected} and {sides.actual}; {count_clause(count, 'row', 'differs', 'differ')}"
    return svg.drawing(width, low.bottom + 26, label, *parts)


def _caption(measure: str, places: list[Bin], size: timedelta) -> str:
    if all(place.windows <= 1 for place in places):
        return f"{measure} per window"
    names = {_DAY: "a day", 7 * _DAY: "a week", 28 * _DAY: "4 weeks"}
    return f"{measure} per window, mean of {names.get(size) or duration(size.total_seconds())}"


def _time(places: list[Bin], size: timedelta, box: Box) -> Scale:
    start, end = places[0].start, _plus(places[-1].start, size)
    return Scale(low=start.timestamp(), high=end.timestamp(), start=box.left, end=box.right)


def _time_marks(places: list[Bin], size: timedelta, time: Scale, about: int) -> list[tuple[float, str]]:
    ticks = svg.time_ticks(places[0].start, _plus(places[-1].start, size), about)
    return [(time(at.timestamp()), label) for at, label in ticks]


def _plus(at: datetime, size: timedelta) -> datetime:
    return at + min(size, _LAST - at)


def _runs(points: list[tuple[datetime, float]], size: timedelta) -> list[list[tuple[datetime, float]]]:
    """Return stretches without a hole: a line over a hole would show what is not there."""
    stretches: list[list[tuple[datetime, float]]] = []
    for at, value in points:
        if stretches and at - stretches[-1][-1][0] <= 3 * size:
            stretches[-1].append((at, value))
        else:
            stretches.append([(at, value)])
    return stretches


def _side(run: list[tuple[datetime, float]], class_: str, time: Scale, scale: Scale, size: timedelta) -> Markup:
    points = [(time(_plus(at, size / 2).timestamp()), scale(value)) for at, value in run]
    return svg.draw_path(points, class_)


def _draw_different(places: list[Bin], size: timedelta, time: Scale, box: Box) -> list[Markup]:
    highest = max(place.different for place in places)
    if highest == 0:
        return [chart.caption(box, "different rows: none")]
    scale, parts = chart.vertical(box, 0, highest, about=1)
    parts.append(chart.caption(box, "different rows"))
    for place in (p for p in places if p.different):
        x1, x2 = time(place.start.timestamp()), time(_plus(place.start, size).timestamp())
        y = scale(place.different)
        shape = Box(left=x1, top=y, width=max(x2 - x1 - 0.5, 2.0), height=box.bottom - y)
        at = _format_start(place, size)
        parts.append(
            svg.draw_bar(shape, "different", f"{at}: {count_clause(place.different, 'row', 'differs', 'differ')}")
        )
    return parts


def _format_start(place: Bin, size: timedelta) -> str:
    return format_moment(place.start) if size < _DAY else f"{place.start:%Y-%m-%d}"


def tabulate_windows(series: Sequence[WindowPoint], measure: str, sides: SideNames) -> ChartTable:
    """Return both sides by time, windows that share a place in one row."""
    size, places = bins(series, ROWS_AT_MOST)
    rows = tuple(
        (
            _format_start(place, size),
            format_number(place.windows),
            format_number(place.mean("batch")),
            format_number(place.mean("streaming")),
            format_number(place.different),
        )
        for place in places
    )
    heads = ("from (UTC)", "windows", f"{measure}, {sides.expected}", f"{measure}, {sides.actual}", "rows that differ")
    return ChartTable(title=_caption(measure, places, size), heads=heads, rows=rows)
