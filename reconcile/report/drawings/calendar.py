"""Days as a calendar, a year at a glance: each in the colour and with the letter of its worst cause.

If there are too many days, months or years replace them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from markupsafe import Markup

from cutover.output import svg
from cutover.output.svg import NARROW, Box
from cutover.reconcile.report.drawings.chart import KNOWN, ChartTable, tone
from cutover.reconcile.result.parts import CalendarDay
from cutover.reconcile.result.text import count_noun, format_number

YEARS_AT_MOST = 4
ROWS_AT_MOST = 30  # of months or years
TABLE_AT_MOST = 100
SIGNS = {"unexplained": "!", "late": "L", "future": "F", "duplicate": "D", "malformed": "M", "dimension": "J"}
OTHER = "O"
_WEEKDAYS = ("Mon", "", "Wed", "", "Fri", "", "")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAY, _MONTH = len("2013-02-08"), len("2013-02")


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


def draw(days: Sequence[CalendarDay], width: int) -> Markup:
    """Return the newest years as SVG; cells that agree are one shape, the others one each with a text to point at."""
    margin = 34.0
    grids = list(_grids(days, narrow=width <= NARROW))
    last_column = max((cell.column for grid in grids for cell in grid.cells), default=0) + 1
    columns = max(last_column, 27 if width <= NARROW else 53) if len(days[0].day) == _DAY else last_column
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
            yield from _draw_different(grid_cell.calendar_day, box, is_titled=is_titled)


def _place(grid_cell: _Cell, cell: Box) -> Box:
    gap = 1.5
    return Box(
        left=cell.left + grid_cell.column * cell.width + gap / 2,
        top=cell.top + grid_cell.row * cell.height + gap / 2,
        width=cell.width - gap,
        height=cell.height - gap,
    )


def _draw_different(calendar_day: CalendarDay, box: Box, *, is_titled: bool) -> Iterator[Markup]:
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
    if len(days[0].day) == _DAY:
        years = sorted({day.day[:4] for day in days})[-YEARS_AT_MOST:]
        for year in years:
            days_of_year = [day for day in days if day.day[:4] == year]
            yield from _split_year(year, days_of_year) if narrow else [_weeks(year, days_of_year, range(1, 13))]
        return
    by_month = len(days[0].day) == _MONTH
    labels = sorted({_row_of(day) for day in days})[-ROWS_AT_MOST:]
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
    return calendar_day.day[:4] if len(calendar_day.day) == _MONTH else f"{calendar_day.day[:-1]}0"


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
    return {_DAY: "day", _MONTH: "month"}.get(len(days[0].day), "year")


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
