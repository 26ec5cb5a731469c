"""Charts of the compared windows: the total of one measure on both sides, the windows over time, and the days.

The waterfall leads from the trusted total, cause by cause, to the judged one. Its bars start at the difference, not at
the total: 115 records of 328,521 would not be seen on an axis that begins at 0, and an axis that begins elsewhere would
lie. Windows over time show both sides of the measure above and the rows that differ below, on one time axis. The
calendar has a year at a glance: each day in the colour and with the letter of its worst cause; of many days, months.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from itertools import pairwise

from markupsafe import Markup

from cutover.counts import count_clause
from cutover.output import svg
from cutover.output.svg import NARROW, Box, Scale
from cutover.reconcile.report.drawings import chart
from cutover.reconcile.report.drawings.chart import KNOWN, ChartTable, tone
from cutover.reconcile.result.codec import Scalar
from cutover.reconcile.result.finding import SideNames, Waterfall, WaterfallStep
from cutover.reconcile.result.measurements import WindowPoint
from cutover.reconcile.result.parts import CalendarDay
from cutover.reconcile.result.text import count_noun, duration, format_number, format_signed, numeric, parse_iso_time
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


YEARS_AT_MOST = 4
PERIODS_AT_MOST = 30  # of months or years
TABLE_AT_MOST = 100
SIGNS = {"unexplained": "!", "late": "L", "future": "F", "duplicate": "D", "malformed": "M", "dimension": "J"}
OTHER = "O"
_WEEKDAYS = ("Mon", "", "Wed", "", "Fri", "", "")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAY_LENGTH, _MONTH_LENGTH = len("2013-02-08"), len("2013-02")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """One day (month, year) and where it stands: column and row of a grid."""

    calendar_day: CalendarDay
    column: int
    row: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grid:
    """One block of cells with its heading and the labels next to and above it."""

    name: str
    cells: tuple[_Cell, ...]
    rows: tuple[str, ...]
    heads: tuple[tuple[int, str], ...]  # column, label


def find_worst(calendar_day: CalendarDay) -> str | None:
    """Return the cause that a day is coloured by: unexplained, else the one with the most rows; None: all agree."""
    causes = [name for name, rows in calendar_day.causes.items() if rows]
    rank = {name: place for place, name in enumerate(KNOWN)}
    causes.sort(key=lambda name: (name != KNOWN[0], -calendar_day.causes[name], rank.get(name, len(rank)), name))
    return causes[0] if causes else ("other" if calendar_day.different else None)


def draw_calendar(days: Sequence[CalendarDay], width: int) -> Markup:
    """Return the newest years as SVG; cells that agree are one shape, the others one each with a text to point at."""
    margin = 34.0
    grids = list(_grids(days, narrow=width <= NARROW))
    last_column = max((cell.column for grid in grids for cell in grid.cells), default=0) + 1
    columns = max(last_column, 27 if width <= NARROW else 53) if len(days[0].day) == _DAY_LENGTH else last_column
    size = min((width - margin) / columns, 22.0)
    parts: list[Markup] = []
    top = 0.0
    for grid in grids:
        parts += _draw_grid(grid, Box(left=margin, top=top + 34, width=size, height=size), is_titled=width > NARROW)
        top += 34 + size * len(grid.rows) + 12
    differ = sum(1 for day in days if day.different)
    label = f"Calendar of {count_noun(len(days), _unit(days))} with windows; {format_number(differ)} with a difference"
    return svg.drawing(width, top, label, *parts)


def _draw_grid(grid: _Grid, cell: Box, *, is_titled: bool) -> Iterator[Markup]:
    yield svg.draw_text(cell.left, cell.top - 20, grid.name, class_="label")
    for column, head in grid.heads:
        yield svg.draw_text(cell.left + column * cell.width, cell.top - 5, head)
    for row, label in enumerate(grid.rows):
        yield svg.draw_text(cell.left - 7, cell.top + (row + 0.5) * cell.height + 4, label, anchor="end")
    places = [(grid_cell, _place(grid_cell, cell)) for grid_cell in grid.cells]
    agree = [box for grid_cell, box in places if not grid_cell.calendar_day.different]
    if agree:
        squares = "".join(f"M{b.left:.1f} {b.top:.1f}h{b.width:.1f}v{b.height:.1f}h-{b.width:.1f}z" for b in agree)
        yield svg.element("path", svg.element("title", "every compared row agrees"), d=squares, class_="agree")
    for grid_cell, box in places:
        if grid_cell.calendar_day.different:
            yield from _draw_different_day(grid_cell.calendar_day, box, is_titled=is_titled)


def _place(grid_cell: _Cell, cell: Box) -> Box:
    gap = 1.5
    return Box(
        left=cell.left + grid_cell.column * cell.width + gap / 2,
        top=cell.top + grid_cell.row * cell.height + gap / 2,
        width=cell.width - gap,
        height=cell.height - gap,
    )


def _draw_different_day(calendar_day: CalendarDay, box: Box, *, is_titled: bool) -> Iterator[Markup]:
    """Draw a cell; narrow pages have no pointer, so a text would only add bytes."""
    worst = find_worst(calendar_day) or "other"
    windows = count_noun(calendar_day.windows, "window")
    title = f"{calendar_day.day}: {format_number(calendar_day.different)} of {windows} differ"
    title += f"; {_describe_causes(calendar_day)}"
    yield svg.draw_bar(box, tone(worst), title if is_titled else "")
    x, y = box.left + box.width / 2, box.top + box.height / 2 + 3.4
    yield svg.draw_text(x, y, SIGNS.get(worst, OTHER), anchor="middle", class_="sign")


def _describe_causes(calendar_day: CalendarDay) -> str:
    ordered = sorted(calendar_day.causes.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {count_noun(rows, 'row')}" for name, rows in ordered if rows) or "no cause recorded"


def _grids(days: Sequence[CalendarDay], *, narrow: bool) -> Iterator[_Grid]:
    if len(days[0].day) == _DAY_LENGTH:
        years = sorted({day.day[:4] for day in days})[-YEARS_AT_MOST:]
        for year in years:
            days_of_year = [day for day in days if day.day[:4] == year]
            yield from _split_year(year, days_of_year) if narrow else [_weeks(year, days_of_year, range(1, 13))]
        return
    by_month = len(days[0].day) == _MONTH_LENGTH
    labels = sorted({_row_of(day) for day in days})[-PERIODS_AT_MOST:]
    heads = tuple(enumerate(_MONTHS if by_month else map(str, range(10))))
    cells = [
        _Cell(
            calendar_day=day,
            column=int(day.day[5:7]) - 1 if by_month else int(day.day[-1]),
            row=labels.index(_row_of(day)),
        )
        for day in days
        if _row_of(day) in labels
    ]
    yield _Grid(name="months" if by_month else "years", cells=tuple(cells), rows=tuple(labels), heads=heads)


def _row_of(calendar_day: CalendarDay) -> str:
    """Return the label of the line of a month or a year: its year, its decade."""
    return calendar_day.day[:4] if len(calendar_day.day) == _MONTH_LENGTH else f"{calendar_day.day[:-1]}0"


def _split_year(year: str, days: Sequence[CalendarDay]) -> Iterator[_Grid]:
    for name, months in (("January to June", range(1, 7)), ("July to December", range(7, 13))):
        days_of_months = [day for day in days if int(day.day[5:7]) in months]
        if days_of_months:
            yield _weeks(f"{year}, {name}", days_of_months, months)


def _weeks(name: str, days: Sequence[CalendarDay], months: Sequence[int]) -> _Grid:
    """Return days by week and weekday, from the week of the first of these months on."""
    year = int(days[0].day[:4])
    starts = [date(year, month, 1).toordinal() for month in months]
    monday = starts[0] - date.fromordinal(starts[0]).weekday()
    cells = []
    for day in days:
        at = date.fromisoformat(day.day)
        cells.append(_Cell(calendar_day=day, column=(at.toordinal() - monday) // 7, row=at.weekday()))
    heads = tuple(((start - monday + 6) // 7, _MONTHS[month - 1]) for start, month in zip(starts, months, strict=True))
    return _Grid(name=name, cells=tuple(cells), rows=_WEEKDAYS, heads=heads)


def _unit(days: Sequence[CalendarDay]) -> str:
    return {_DAY_LENGTH: "day", _MONTH_LENGTH: "month"}.get(len(days[0].day), "year")


def tabulate(days: Sequence[CalendarDay]) -> ChartTable:
    """Return the days that differ, the newest first; the sentence says how many agree."""
    unit = _unit(days)
    differ = [day for day in reversed(days) if day.different]
    rows = [
        (day.day, _describe_causes(day), format_number(day.different), format_number(day.windows))
        for day in differ[:TABLE_AT_MOST]
    ]
    more = len(differ) - len(rows)
    summary = f"{count_noun(len(days) - len(differ), unit)} with windows agree in full."
    if more:
        summary = f"And {count_noun(more, unit)} more that differ, in the Parquet. {summary}"
    heads = (f"{unit} (UTC)", "causes, by rows", "windows that differ", "windows")
    return ChartTable(
        title=f"{unit}s with a difference".capitalize(), heads=heads, rows=tuple(rows), words=2, omission=summary
    )


def legend(days: Sequence[CalendarDay]) -> list[tuple[str, str, str]]:
    """Return the causes that colour some day, worst first: name, letter, class of the style sheet."""
    worst_causes = {worst for day in days if (worst := find_worst(day)) is not None}
    legend_rows = [(name, SIGNS[name], tone(name)) for name in KNOWN if name in worst_causes]
    return [*legend_rows, ("another cause", OTHER, tone(OTHER))] if worst_causes - set(KNOWN) else legend_rows
