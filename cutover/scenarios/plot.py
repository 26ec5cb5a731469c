"""SVG drawing of a scenario in the style of the paper: event time to the right, processing time upwards.

A pane is a box over its window, from the previous firing (or its first row) up to its own processing time, with its
value at the top. Each key has its own picture; all share the same axes.

Source:
    Akidau et al., The Dataflow Model, VLDB 2015, figures 5 to 14.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from markupsafe import Markup

from cutover.definition.windows.window_fn import EARLIEST, FOREVER, LATEST
from cutover.errors import DefinitionError
from cutover.output import svg
from cutover.output.svg import Box, Scale
from cutover.panes.model import Estimator, Ideal, InputRow, Key, Outcome, Pane
from cutover.scenarios.compare import compute_contribution
from cutover.scenarios.reading import texts
from cutover.scenarios.reading.setting import Scenario
from cutover.scenarios.reading.texts import Style
from cutover.timestamps import MICROSECONDS

MOST_POINTS, MOST_KEYS, MOST_PANES = 2_000, 8, 2_000
"""Limits beyond which a drawing is unreadable."""

WIDTH, LEFT, RIGHT, TOP, BELOW, GAP = 900.0, 90.0, 30.0, 64.0, 46.0, 40.0
NAMED = 60  # points that are drawn with their values
LONGEST = 5  # characters of such a value

Moments = tuple[tuple[int, int], ...]  # event time, processing time

_STYLE = """
text { font: 12px 'DejaVu Sans', Arial, sans-serif; fill: #333 }
.title { font-size: 15px; font-weight: bold } .key { font-weight: bold } .tick { fill: #555 } .name { fill: #111 }
.frame { fill: #fff; stroke: #888 } .grid { stroke: #ddd } .ideal { stroke: #aaa; stroke-dasharray: 2 4 }
.watermark { stroke: #1a7a3c; stroke-width: 2.5; stroke-dasharray: 8 4 }
.point { fill: #fff; stroke: #333; stroke-width: 1.3 } .value { font-size: 11px } .dropped { stroke: #c00; fill: #fdd }
.early { fill: #4e79a7; fill-opacity: .16; stroke: #4e79a7 }
.on_time { fill: #2e8b57; fill-opacity: .2; stroke: #2e8b57 }
.late { fill: #c8651b; fill-opacity: .2; stroke: #c8651b }
.said, .back { font-size: 13px; font-weight: bold; paint-order: stroke; stroke: #fff; stroke-width: 3px }
.back { fill: #b3261e }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sheet:
    """Axes of the picture of one key."""

    box: Box
    event: Scale
    processing: Scale
    style: Style


def check_size(scenario: Scenario) -> None:
    """Reject a scenario whose drawing would be unreadable.

    Raises:
        DefinitionError: It has no points, too many of them, or too many keys.
    """
    rows = scenario.setting.rows
    keys = {row.key for row in rows}
    if not 0 < len(rows) <= MOST_POINTS:
        _reject(f"from 1 to {MOST_POINTS} points", str(len(rows)))
    if len(keys) > MOST_KEYS:
        _reject(f"at most {MOST_KEYS} keys, one picture each", str(len(keys)))


def write_plot(path: Path, scenario: Scenario, outcome: Outcome) -> None:
    """Draw a scenario into a self-contained SVG file.

    Raises:
        DefinitionError: There are too many panes, or the file cannot be written.
    """
    if len(outcome.panes) > MOST_PANES:
        _reject(f"at most {MOST_PANES} panes", str(len(outcome.panes)))
    try:
        path.write_text(draw_scenario(scenario, outcome) + "\n", encoding="utf-8")
    except OSError as error:
        msg = f"--plot: expected a file that can be written, got `{path.name}`: {error.strerror}."
        raise DefinitionError(msg) from None


def draw_scenario(scenario: Scenario, outcome: Outcome) -> str:
    """Return the SVG drawing of a scenario, one picture per key, with each pane as a box over its window."""
    keys = sorted({row.key for row in scenario.setting.rows}, key=lambda key: (type(key).__name__, str(key)))
    height = 420.0 if len(keys) == 1 else 300.0
    events, arrivals = _spans(scenario, outcome)
    parts = [svg.element("style", Markup(_STYLE)), *_heading(scenario)]  # noqa: S704 -- ours
    for number, key in enumerate(keys):
        top = TOP + number * (height + GAP)
        box = Box(left=LEFT, top=top, width=WIDTH - LEFT - RIGHT, height=height)
        sheet = _Sheet(
            box=box,
            event=Scale(low=events[0], high=events[1], start=box.left, end=box.right),
            processing=Scale(low=arrivals[0], high=arrivals[1], start=box.bottom, end=box.top),
            style=scenario.style,
        )
        parts += [*_axes(sheet, key, several=len(keys) > 1), *_panes(sheet, scenario, outcome, key)]
        parts += [*_lines(sheet, scenario), *_points(sheet, scenario, outcome, key)]
    total_height = TOP + len(keys) * (height + GAP) + BELOW - GAP
    parts.append(
        svg.draw_text(LEFT + (WIDTH - LEFT - RIGHT) / 2, total_height - 8, "event time", anchor="middle", class_="name")
    )
    markup = svg.drawing(WIDTH, total_height, _clean(scenario.title), *parts)
    return str(markup).replace(
        "<svg ", f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH:g}" height="{total_height:g}" ', 1
    )


def _spans(scenario: Scenario, outcome: Outcome) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the ranges of both axes: the times of rows, windows and panes, with a margin."""
    rows, windows = scenario.setting.rows, [pane.window for pane in outcome.panes]
    ends = (end for window in windows for end in window if end not in {EARLIEST, LATEST})
    events = [*(row.event_time for row in rows), *ends]
    moments = [*(row.processing_time for row in rows), *(pane.processing_time for pane in outcome.panes)]
    return _widen_range(events), _widen_range(moments)


def _widen_range(moments: Sequence[int]) -> tuple[int, int]:
    low, high = min(moments), max(moments)
    margin = max((high - low) // 14, 1)
    return low - margin, high + margin


def _heading(scenario: Scenario) -> Iterator[Markup]:
    yield svg.draw_text(LEFT, 22, _clean(scenario.title)[:110], class_="title")
    x = LEFT
    for class_, name in (("early", "early"), ("on_time", "on time"), ("late", "late")):
        yield svg.draw_bar(Box(left=x, top=34, width=16, height=12), class_, name)
        yield svg.draw_text(x + 21, 44, name)
        x += 90
    yield svg.draw_line(x, 40, x + 28, 40, "watermark")
    yield svg.draw_text(x + 34, 44, "watermark")
    yield svg.draw_line(x + 120, 40, x + 148, 40, "ideal")
    yield svg.draw_text(x + 154, 44, "event time = processing time")


def _axes(sheet: _Sheet, key: Key, *, several: bool) -> Iterator[Markup]:
    box = sheet.box
    yield svg.draw_bar(box, "frame", "")
    for at, name in _list_ticks(int(sheet.event.low), int(sheet.event.high), 9, sheet.style):
        x = sheet.event(at)
        yield svg.draw_line(x, box.top, x, box.bottom, "grid")
        yield svg.draw_text(x, box.bottom + 16, name, anchor="middle")
    for at, name in _list_ticks(int(sheet.processing.low), int(sheet.processing.high), 8, sheet.style):
        y = sheet.processing(at)
        yield svg.draw_line(box.left, y, box.right, y, "grid")
        yield svg.draw_text(box.left - 6, y + 4, name, anchor="end")
    middle = (box.top + box.bottom) / 2
    turn = f"rotate(-90 16 {middle:.1f})"
    yield svg.element("text", "processing time", x=16.0, y=middle, transform=turn, text_anchor="middle", class_="name")
    if several:
        yield svg.draw_text(box.left + 8, box.top + 16, f"key {_clean(str(key))[:40]}", class_="key")


def _panes(sheet: _Sheet, scenario: Scenario, outcome: Outcome, key: Key) -> Iterator[Markup]:
    tops: list[Pane] = []
    labels: dict[tuple[int, int], int] = {}  # number of labels at a position, so that they do not overlap
    for pane in outcome.panes:
        if pane.key != key or type(pane.key) is not type(key):
            continue
        start, stop = (_clamp_moment(sheet.event, end) for end in pane.window)
        top = sheet.processing(pane.processing_time)
        if not pane.is_retraction:
            bottom = _bottom(sheet, scenario, tops, pane)
            yield svg.draw_bar(
                Box(left=start, top=top, width=stop - start, height=bottom - top), pane.timing.value, _title(pane)
            )
            yield svg.draw_line(start, top, stop, top, pane.timing.value)
            tops.append(pane)
        value = compute_contribution(scenario, pane)
        text = f"-({pane.value})" if pane.is_retraction and value is None else "null" if value is None else f"{value}"
        middle = (start + stop) / 2
        line_number = labels.setdefault((round(middle / 30), round(top)), 0)
        labels[round(middle / 30), round(top)] += 1
        class_ = "back" if pane.is_retraction else "said"
        yield svg.draw_text(middle, top + 15 + 14 * line_number, text[:24], anchor="middle", class_=class_)


def _bottom(sheet: _Sheet, scenario: Scenario, panes: Sequence[Pane], pane: Pane) -> float:
    """Return the bottom of the box of a pane: the newest firing of the same window or session, or its first row."""
    window = pane.window
    overlapping = [other for other in panes if other.window.start < window.end and window.start < other.window.end]
    earlier = [other for other in overlapping if other.window == window or scenario.setting.is_sessions]
    if earlier:
        return sheet.processing(max(other.processing_time for other in earlier))
    rows = [
        row.processing_time
        for row in scenario.setting.rows
        if row.key == pane.key and window.start <= row.event_time < window.end
    ]
    return sheet.processing(min((*rows, pane.processing_time)))


def _title(pane: Pane) -> str:
    return f"{pane.kind}: {pane.value}"


def _lines(sheet: _Sheet, scenario: Scenario) -> Iterator[Markup]:
    """Yield the diagonal (event time equals processing time) and the watermark."""
    low = max(sheet.event.low, sheet.processing.low)
    high = min(sheet.event.high, sheet.processing.high)
    diagonal = [(sheet.event(at), sheet.processing(at)) for at in (low, high)] if low < high else []
    if diagonal:
        yield svg.draw_path(diagonal, "ideal")
    if isinstance(scenario.setting.watermark, Ideal):
        if diagonal:
            yield svg.draw_path(diagonal, "watermark")
        return
    course = _list_step_corners(_moves(scenario), int(sheet.processing.high))
    corners = [(_clamp_moment(sheet.event, event), _clamp_moment(sheet.processing, at)) for event, at in course]
    if len(corners) > 1:
        yield svg.draw_path(corners, "watermark")


def _moves(scenario: Scenario) -> Moments:
    """Return the steps of the watermark in the order of processing time."""
    watermark = scenario.setting.watermark
    if isinstance(watermark, Estimator):
        estimates, watermark_time = [], -FOREVER
        for row in sorted(scenario.setting.rows, key=lambda row: row.processing_time):
            watermark_time = max(watermark_time, row.event_time - watermark.out_of_orderness)
            estimates.append((watermark_time, row.processing_time))
        return tuple(estimates)
    return () if isinstance(watermark, Ideal) else tuple((step.watermark, step.processing_time) for step in watermark)


def _list_step_corners(moves: Moments, end: int) -> Moments:
    """Return the corners of a step line."""
    corners: list[tuple[int, int]] = []
    for event, at in moves:
        if corners:
            corners.append((corners[-1][0], at))
        corners.append((event, at))
    return (*corners, (corners[-1][0], max(end, corners[-1][1]))) if corners else ()


def _points(sheet: _Sheet, scenario: Scenario, outcome: Outcome, key: Key) -> Iterator[Markup]:
    dropped = {id(drop.row) for drop in outcome.dropped}
    rows = [row for row in scenario.setting.rows if row.key == key and type(row.key) is type(key)]
    for row in rows:
        x, y = sheet.event(row.event_time), sheet.processing(row.processing_time)
        class_ = "point dropped" if id(row) in dropped else "point"
        yield svg.element("circle", cx=x, cy=y, r=9.0 if len(rows) <= NAMED else 3.0, class_=class_)
        if len(rows) <= NAMED:
            yield svg.draw_text(x, y + 4, _value(scenario, row), anchor="middle", class_="value")


def _value(scenario: Scenario, row: InputRow) -> str:
    column = scenario.setting.measure.expression
    return "" if column is None else _shorten_text(row.columns[column])


def _shorten_text(value: object) -> str:
    text = "-" if value is None else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"


def _clamp_moment(scale: Scale, moment: float) -> float:
    """Return the coordinate of a moment, clamped to the axis."""
    return scale(min(max(moment, scale.low), scale.high))


def _clean(text: str) -> str:
    return "".join(mark if mark.isprintable() else "\N{REPLACEMENT CHARACTER}" for mark in text)


def _reject(expected: str, actual: str) -> NoReturn:
    msg = f"--plot: expected {expected}, got {actual}.\nHint: a larger drawing is unreadable; draw a part."
    raise DefinitionError(msg)


_SECOND, _MINUTE, _HOUR, _DAY = (MICROSECONDS[name] for name in ("second", "minute", "hour", "day"))
_STEPS = (
    *(10**power * factor for power in range(6) for factor in (1, 2, 5)),  # microseconds, up to half a second
    *(_SECOND * count for count in (1, 2, 5, 10, 15, 30)),
    *(_MINUTE * count for count in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * count for count in (1, 2, 3, 6, 12)),
    *(_DAY * count for count in (1, 2, 7, 14, 28, 91, 182, 365)),
)


def _list_ticks(low: int, high: int, limit: int, style: Style) -> list[tuple[int, str]]:
    """Return up to about `limit` round times from `low` to `high` (microseconds), each with its label."""
    step = next(
        (step for step in _STEPS if (high - low) // step < limit), _DAY * 365 * ((high - low) // _DAY // limit + 1)
    )
    start = -(-low // step) * step
    return [(at, _format_tick(at, step, style)) for at in range(start, high + 1, step)]


def _format_tick(at: int, step: int, style: Style) -> str:
    text = texts.format_scenario_time(at, style)
    if style is Style.DATE:
        day, _, clock = text.removesuffix("Z").partition("T")
        return day if step >= _DAY else f"{day[5:]} {clock[:5]}" if step >= _MINUTE else clock
    return text.removesuffix(":00") if step >= _MINUTE else text
