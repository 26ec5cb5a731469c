"""Charts of one series each: late records, settlement, event time, consecutive comparisons, and error rates.

Late records are a histogram over the time since their window stopped accepting. Settlement has two curves over the age
of windows, by powers of ten: windows complete in the log, and windows right in the stream's answer. Event time over
epochs shows how far the watermark came, how far it stayed behind, and how much an epoch read. Comparisons show the rows
that differed, those without a cause separately, and the verdict as a sign. Error rates of the reconciler are shares on
a line from 0 to 1, with a bar for the 95 % bounds.
"""

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from markupsafe import Markup

from cutover.counts import count_clause, count_noun
from cutover.output import svg
from cutover.output.svg import NARROW, Box, Scale
from cutover.reconcile.report.drawings import chart
from cutover.reconcile.report.drawings.chart import ChartTable
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.measurements import EpochPoint, LatenessBin
from cutover.reconcile.result.parts import ErrorRates, Rate, RunOfTrend, Settlement, SettlementPoint
from cutover.reconcile.result.text import duration, format_number, minutes, numeric, parse_iso_time, share, when
from cutover.reconcile.verdict import decision

_PLACES = 400
EPOCHS_AT_MOST = 60
UNITS = ((86_400, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds"))


def downsample_epochs(series: Sequence[EpochPoint], places: int = _PLACES) -> list[EpochPoint]:
    """Return at most about `places` epochs: of each group the one that lagged most, so that no peak is lost."""
    size = -(-len(series) // places)
    groups = [series[i : i + size] for i in range(0, len(series), size)]
    return [max(group, key=lambda point: numeric(point.lag)) for group in groups]


def draw_epochs(series: Sequence[EpochPoint], width: int) -> Markup:
    """Return watermark and newest event, the lag between them, and records an epoch as SVG."""
    narrow = width <= NARROW
    epoch_points = downsample_epochs(series, 150 if narrow else _PLACES)
    box = Box(left=64, top=30, width=width - 76, height=150 if narrow else 170)
    lag = Box(left=box.left, top=box.bottom + 44, width=box.width, height=70)
    read = Box(left=box.left, top=lag.bottom + 44, width=box.width, height=50)
    place = Scale(low=epoch_points[0].epoch, high=epoch_points[-1].epoch, start=box.left, end=box.right)
    parts = [
        *_progress(epoch_points, box, place),
        *_lag(epoch_points, lag, place),
        *_records(epoch_points, read, place),
    ]
    marks = [m for m in svg.ticks(place.low, place.high, 4 if narrow else 8) if place.low <= m <= place.high]
    parts += chart.horizontal(read, [(place(m), chart.format_axis_value(m)) for m in marks if m == int(m)])
    parts.append(chart.unit(read, "epoch"))
    label = f"Watermark and newest event of epochs {series[0].epoch} to {series[-1].epoch}"
    return svg.drawing(width, read.bottom + 44, label, *parts)


def _progress(epoch_points: list[EpochPoint], box: Box, place: Scale) -> list[Markup]:
    lines = {
        "newest": [(p.epoch, m) for p in epoch_points if (m := parse_iso_time(p.newest_event)) is not None],
        "watermark": [(p.epoch, m) for p in epoch_points if (m := parse_iso_time(p.watermark)) is not None],
    }
    times = [at for points in lines.values() for _, at in points]
    if not times:
        return [chart.caption(box, "event time: no watermark yet")]
    start, end = min(times), max(times)
    scale = Scale(low=start.timestamp(), high=end.timestamp(), start=box.bottom, end=box.top)
    parts = [chart.caption(box, "event time reached")]
    for at, label in svg.time_ticks(start, end, 5):
        y = scale(at.timestamp())
        parts += [
            svg.draw_line(box.left, y, box.right, y, "grid"),
            svg.draw_text(box.left - 8, y + 4, label, anchor="end"),
        ]
    parts.append(svg.draw_line(box.left, box.bottom, box.right, box.bottom, "axis"))
    for name, points in lines.items():
        if points:
            parts.append(svg.draw_path([(place(e), scale(_utc(at).timestamp())) for e, at in points], f"line-{name}"))
    return parts


def _utc(at: datetime) -> datetime:
    return at.astimezone(UTC)


def _lag(epoch_points: list[EpochPoint], box: Box, place: Scale) -> list[Markup]:
    points = [(p.epoch, p.lag) for p in epoch_points if p.lag is not None]
    if not points:
        return [chart.caption(box, "watermark lag: none yet")]
    longest = max(1.0, *(lag for _, lag in points))
    size, unit = next(candidate for candidate in UNITS if longest >= 2 * candidate[0] or candidate[0] == 1)
    scale, parts = chart.vertical(box, 0, longest / size, about=2)
    parts.append(chart.caption(box, f"watermark lag ({unit}), at most {duration(max(lag for _, lag in points))}"))
    parts.append(svg.draw_path([(place(epoch), scale(lag / size)) for epoch, lag in points], "line-lag"))
    return parts


def _records(epoch_points: list[EpochPoint], box: Box, place: Scale) -> list[Markup]:
    scale, parts = chart.vertical(box, 0, max(1, *(p.records for p in epoch_points)), about=1)
    parts.append(chart.caption(box, "records read by an epoch"))
    parts.append(svg.draw_path([(place(p.epoch), scale(p.records)) for p in epoch_points], "line-records"))
    return parts


def tabulate_epochs(series: Sequence[EpochPoint]) -> ChartTable:
    """Return epochs with watermark and lag; of many in a row the one that lagged most."""
    epoch_points = downsample_epochs(series, EPOCHS_AT_MOST)
    rows = tuple(
        (
            format_number(p.epoch),
            when(p.watermark),
            when(p.newest_event),
            duration(p.lag),
            format_number(p.records),
            duration(p.seconds),
        )
        for p in epoch_points
    )
    omitted = len(series) - len(epoch_points)
    summary = (
        f"Of neighbours the one that lagged most is listed; {count_clause(omitted, 'epoch', 'is', 'are')} left out."
        if omitted
        else ""
    )
    heads = ("epoch", "watermark (UTC)", "newest event (UTC)", "lag", "records", "took")
    return ChartTable(title="Watermark and lag by epoch", heads=heads, rows=rows, words=0, omission=summary)


def describe_lag(series: Sequence[EpochPoint]) -> str | None:
    """Return the lag of the watermark in one sentence; None before the first watermark."""
    lags = sorted(p.lag for p in series if p.lag is not None)
    if not lags:
        return None
    half, longest, latest = (
        lags[(len(lags) - 1) // 2],
        lags[-1],
        next(p.lag for p in reversed(series) if p.lag is not None),
    )
    return (
        f"The watermark stayed {duration(half)} behind the newest event in half of the epochs, "
        f"{duration(longest)} at most, and {duration(latest)} at the end."
    )


_LETTER = 7.0  # pixels, at most, of a letter of a label
_HIGH_SHARE = 0.9
"""Where every share is at least this, the axis begins here."""

_WIDEST = 44.0
_LEAST = 2.0  # pixels of a bar whose share is too small to be seen

_WIDTH, _HEIGHT = 160.0, 14.0


def draw_lateness(histogram: Sequence[LatenessBin], width: int) -> Markup:
    """Return the histogram as SVG: one place a bin, its edges below; bins may be of unequal width."""
    narrow = width <= NARROW
    box = Box(left=44, top=30, width=width - 56, height=150 if narrow else 180)
    scale, parts = chart.vertical(box, 0, max(1, *(b.events for b in histogram)), label=_format_whole)
    step = box.width / len(histogram)
    for index, lateness_bin in enumerate(histogram):
        y = scale(lateness_bin.events)
        bar_left, inner = box.left + index * step + step * 0.08, step * 0.84
        edges = f"{_edge(lateness_bin.from_minutes)} to {_edge(lateness_bin.to_minutes)}"
        title = f"{edges}: {count_noun(lateness_bin.events, 'record')}"
        parts.append(svg.draw_bar(Box(left=bar_left, top=y, width=inner, height=box.bottom - y), "cause", title))
        if lateness_bin.events and step > 26:  # noqa: PLR2004 -- a narrower bar has no room for its number
            parts.append(
                svg.draw_text(
                    bar_left + inner / 2,
                    y - 5,
                    format_number(lateness_bin.events),
                    anchor="middle",
                    class_="value-small",
                )
            )
    parts += chart.horizontal(box, _edges(histogram, box, step, room=58 if narrow else 64))
    parts.append(chart.caption(box, "late records"))
    parts.append(chart.unit(box, "time since the window stopped accepting"))
    total = sum(b.events for b in histogram)
    return svg.drawing(width, box.bottom + 44, f"Lateness of {total} late records", *parts)


def _format_whole(value: float) -> str:
    return chart.format_axis_value(value) if value == int(value) else ""


def _edge(value: float) -> str:
    return "longer" if value == float("inf") else minutes(value)


def _edges(histogram: Sequence[LatenessBin], box: Box, step: float, room: float) -> list[tuple[float, str]]:
    label_step = max(1, -(-int(room) // max(int(step), 1)))
    values = [b.from_minutes for b in histogram] + [histogram[-1].to_minutes]
    return [(box.left + i * step, _edge(value)) for i, value in enumerate(values) if i % label_step == 0]


def tabulate_lateness(histogram: Sequence[LatenessBin]) -> ChartTable:
    """Return late records by how late they were, and which share of them was no later."""
    total, rows, upto = sum(b.events for b in histogram), [], 0
    for lateness_bin in histogram:
        upto += lateness_bin.events
        edges = f"{_edge(lateness_bin.from_minutes)} to {_edge(lateness_bin.to_minutes)}"
        rows.append((edges, format_number(lateness_bin.events), share(upto / max(total, 1))))
    return ChartTable(
        title="Late records by time since the window stopped accepting",
        heads=("late by", "records", "so late or less"),
        rows=tuple(rows),
    )


def draw_settlement(settlement: Settlement, width: int) -> Markup:
    """Return both curves, the stream's drawn flat from the closing on, and the age from which it can be trusted."""
    box = Box(left=62, top=30, width=width - 78, height=170 if width <= NARROW else 190)
    ages = sorted({max(point.minutes, 1.0) for point in (*settlement.log, *settlement.stream)})
    least = min(map(_share, (*settlement.log, *settlement.stream)))
    up, parts = chart.vertical(box, _HIGH_SHARE if least >= _HIGH_SHARE else 0.0, 1.0, label=share)
    along = Scale(low=math.log10(ages[0]), high=math.log10(ages[-1]), start=box.left, end=box.right)

    def locate(point: SettlementPoint) -> tuple[float, float]:
        return along(math.log10(max(point.minutes, 1.0))), up(_share(point))

    stream = [locate(point) for point in settlement.stream]
    if len(ages) > 1:
        stream.append((box.right, stream[-1][1]))
    parts.append(chart.caption(box, "windows that hold 99.9 % of the records read so far"))
    parts.append(svg.draw_path([locate(point) for point in settlement.log], "curve-log"))
    parts.append(svg.draw_path(stream, "curve-stream"))
    if settlement.trusted is not None:
        x = locate(settlement.trusted)[0]
        parts.append(svg.draw_line(x, box.top, x, box.bottom, "settled"))
    parts += chart.horizontal(box, _pick_marks([(along(math.log10(age)), minutes(age)) for age in ages]))
    parts.append(chart.unit(box, "age of the window"))
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
    answer = f"Settlement curves: {_count_windows(final)} right in the stream's answer from their closing on"
    if not settlement.log:
        return f"{answer}, at {minutes(final.minutes)}; no window is old enough to show the log"
    final_point = settlement.log[-1]
    return (
        f"{answer}, at {minutes(final.minutes)}; {_count_windows(final_point)} complete in the log"
        f" at {minutes(final_point.minutes)}"
    )


def _count(point: SettlementPoint) -> str:
    return f"{format_number(point.within.hits)} of {format_number(point.within.of)}"


def _count_windows(point: SettlementPoint) -> str:
    return f"{format_number(point.within.hits)} of {count_clause(int(point.within.of), 'window', 'is', 'are')}"


def tabulate_settlement(settlement: Settlement) -> ChartTable:
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


def draw_trend(runs: Sequence[RunOfTrend], width: int) -> Markup:
    """Return the newest runs as SVG, the oldest of them on the left."""
    shown_runs = runs[-14:] if width <= NARROW else runs
    box = Box(left=52, top=26, width=width - 64, height=54)
    scale, parts = chart.vertical(box, 0, max(1, *(run.rows for run in shown_runs)), about=2, label=_format_whole)
    parts.append(chart.caption(box, "rows that differ, by comparison"))
    step = min(box.width / len(shown_runs), _WIDEST)
    for place, run in enumerate(shown_runs):
        slot = Box(left=box.left + place * step, top=box.top, width=step, height=box.height)
        parts += _draw_run(run, slot, scale)
    last_x = box.left + (len(shown_runs) - 0.5) * step
    parts.append(svg.draw_text(box.left, box.bottom + 38, when(shown_runs[0].at), class_="tick"))
    if len(shown_runs) > 1 and last_x > box.left + 240:
        parts.append(svg.draw_text(last_x + step / 2, box.bottom + 38, when(shown_runs[-1].at), anchor="end"))
    label = f"Trend of {len(shown_runs)} comparisons: " + ", ".join(_describe_run(run) for run in shown_runs[-5:])
    return svg.drawing(width, box.bottom + 44, label, *parts)


def _draw_run(run_of_trend: RunOfTrend, slot: Box, scale: svg.Scale) -> list[Markup]:
    shape = decision.find_style(Verdict(run_of_trend.verdict), within=run_of_trend.within)
    middle, wide = slot.left + slot.width / 2, max(slot.width * 0.6, 2.0)
    parts = []
    for rows, class_ in ((run_of_trend.rows, "cause"), (run_of_trend.unexplained, "cause-unexplained")):
        if rows:
            high = max(slot.bottom - scale(rows), _LEAST)
            bar = Box(left=middle - wide / 2, top=slot.bottom - high, width=wide, height=high)
            parts.append(svg.draw_bar(bar, class_, f"{when(run_of_trend.at)}: {_describe_run(run_of_trend)}"))
    parts.append(svg.draw_text(middle, slot.bottom + 18, shape.sign, anchor="middle", class_=f"mark tone-{shape.tone}"))
    return parts


def _describe_run(run_of_trend: RunOfTrend) -> str:
    word = decision.find_style(Verdict(run_of_trend.verdict), within=run_of_trend.within).word
    return (
        word
        if run_of_trend.verdict == Verdict.NOT_COMPARABLE
        else f"{word}, {count_clause(run_of_trend.rows, 'row', 'differs', 'differ')}"
    )


def tabulate_trend(runs: Sequence[RunOfTrend]) -> ChartTable:
    """Return the comparisons, the newest first."""
    rows = tuple(
        (
            when(run.at),
            decision.find_style(Verdict(run.verdict), within=run.within).word,
            "none" if run.epoch is None else format_number(run.epoch),
            *_list_figures(run),
        )
        for run in reversed(runs)
    )
    heads = ("made (UTC)", "verdict", "epoch", "windows", "differ", "rows differ", "unexplained", "late share")
    return ChartTable(title="Comparisons, the newest first", heads=heads, rows=rows, words=2)


def _list_figures(run_of_trend: RunOfTrend) -> tuple[str, ...]:
    """Return what a comparison found; where nothing was compared no figure is known."""
    if run_of_trend.verdict == Verdict.NOT_COMPARABLE:
        return ("none", "none", "none", "none", "none")
    counts = (run_of_trend.windows, run_of_trend.different, run_of_trend.rows, run_of_trend.unexplained)
    return (*map(format_number, counts), share(run_of_trend.late_share))


def list_rate_rows(error_rates: ErrorRates | None) -> list[tuple[str, Rate, Markup]]:
    """Return what was measured: in words, as a share, as a picture; nothing without a self-test."""
    if error_rates is None:
        return []
    named_rates = (
        ("planted differences found", error_rates.detection_rate),
        ("false alarms in clean windows", error_rates.false_alarm_rate),
        ("causes named right", error_rates.right_cause_rate),
    )
    return [(name, rate, draw_rates(name, rate)) for name, rate in named_rates]


def draw_rates(name: str, rate: Rate) -> Markup:
    """Draw the bounds of a share between 0 and 1, and the share as a stroke across."""
    scale = Scale(low=0, high=1, start=2, end=_WIDTH - 2)
    middle = _HEIGHT / 2
    low, high = scale(rate.lower), scale(rate.upper)
    bounds = Box(left=low, top=middle - 3, width=max(high - low, 2.0), height=6)
    at = scale(rate.hits / rate.of) if rate.of else scale(0)
    label = f"{name}: {share(rate.lower)} to {share(rate.upper)}"
    parts = (
        svg.draw_line(2, middle, _WIDTH - 2, middle, "axis"),
        svg.draw_bar(bounds, "cause", label),
        *([svg.draw_line(at, 1, at, _HEIGHT - 1, "settled")] if rate.of else []),
    )
    return svg.drawing(_WIDTH, _HEIGHT, label, *parts)
