"""Settlement curves: windows complete in the log, and right in the stream's answer, by age; ages by powers of ten."""

import math
from collections.abc import Sequence

from markupsafe import Markup

from cutover.output import svg
from cutover.output.svg import NARROW, Box, Scale
from cutover.reconcile.report.drawings import axes
from cutover.reconcile.report.drawings.chart import ChartTable
from cutover.reconcile.result.settlement import Settlement, SettlementPoint
from cutover.reconcile.result.text import minutes, number, share

_LETTER = 7.0  # pixels, at most, of a letter of a label
_HIGH_SHARE = 0.9
"""Where every share is at least this, the axis begins here."""


def draw(settlement: Settlement, width: int) -> Markup:
    """Return both curves, the stream's drawn flat from the closing on, and the age from which it can be trusted."""
    box = Box(left=62, top=30, width=width - 78, height=170 if width <= NARROW else 190)
    ages = sorted({max(point.minutes, 1.0) for point in (*settlement.log, *settlement.stream)})
    least = min(map(_share, (*settlement.log, *settlement.stream)))
    up, parts = axes.vertical(box, _HIGH_SHARE if least >= _HIGH_SHARE else 0.0, 1.0, label=share)
    along = Scale(low=math.log10(ages[0]), high=math.log10(ages[-1]), start=box.left, end=box.right)

    def locate(point: SettlementPoint) -> tuple[float, float]:
        return along(math.log10(max(point.minutes, 1.0))), up(_share(point))

    stream = [locate(point) for point in settlement.stream]
    if len(ages) > 1:
        stream.append((box.right, stream[-1][1]))
    parts.append(axes.caption(box, "windows that hold 99.9 % of the records read so far"))
    parts.append(svg.path([locate(point) for point in settlement.log], "curve-log"))
    parts.append(svg.path(stream, "curve-stream"))
    if settlement.trusted is not None:
        x = locate(settlement.trusted)[0]
        parts.append(svg.line(x, box.top, x, box.bottom, "settled"))
    parts += axes.horizontal(box, _pick_marks([(along(math.log10(age)), minutes(age)) for age in ages]))
    parts.append(axes.unit(box, "age of the window"))
    return svg.drawing(width, box.bottom + 44, _describe(settlement), *parts)


def _share(point: SettlementPoint) -> float:
    return point.within.hits / point.within.of if point.within.of else 0.0


def _pick_marks(marks: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """Leave out marks whose labels would lie on one another."""
    chosen_marks = list(marks[:1])
    for x, label in marks[1:]:
        if x - chosen_marks[-1][0] > _LETTER * (len(label) + len(chosen_marks[-1][1])) / 2 + 10:
            chosen_marks.append((x, label))
    return chosen_marks


def _describe(settlement: Settlement) -> str:
    final = settlement.final
    answer = f"Settlement curves: {_count(final)} windows are right in the stream's answer from their closing on"
    if not settlement.log:
        return f"{answer}, at {minutes(final.minutes)}; no window is old enough to show the log"
    final_point = settlement.log[-1]
    return (
        f"{answer}, at {minutes(final.minutes)}; the log is complete in {_count(final_point)} windows"
        f" at {minutes(final_point.minutes)}"
    )


def _count(point: SettlementPoint) -> str:
    return f"{number(point.within.hits)} of {number(point.within.of)}"


def tabulate(settlement: Settlement) -> ChartTable:
    """Return both curves by age: windows complete or right of those counted, and the share of records missing."""
    log = {point.minutes: point for point in settlement.log}
    stream = {point.minutes: point for point in settlement.stream}
    ages = sorted(log.keys() | stream.keys())
    rows = tuple(_make_row(age, log.get(age), stream.get(age), settlement) for age in ages)
    heads = (
        "age of the window",
        "complete in the log",
        "missing in the worst",
        "right in the stream's answer",
        "missing in half",
        "in 90 %",
        "in 99 %",
        "in the worst",
    )
    return ChartTable(title="What the log and the stream's answer hold, by age", heads=heads, rows=rows)


def _make_row(
    age: float, log: SettlementPoint | None, answer: SettlementPoint | None, settlement: Settlement
) -> tuple[str, ...]:
    in_log = ("no window that old", "") if log is None else (_count(log), share(log.largest))
    if answer is None:
        return (minutes(age), *in_log, f"as at {minutes(settlement.closing_minutes)}", "", "", "", "")
    missing = (answer.p50, answer.p90, answer.p99, answer.largest)
    return (minutes(age), *in_log, _count(answer), *map(share, missing))
