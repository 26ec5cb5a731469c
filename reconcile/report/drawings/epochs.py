"""Event time over epochs: how far the watermark came, how far it stayed behind, and how much an epoch read."""

from collections.abc import Sequence
from datetime import UTC, datetime

from markupsafe import Markup

from cutover.counts import count_clause
from cutover.output import svg
from cutover.output.svg import NARROW, Box, Scale
from cutover.reconcile.report.drawings import chart
from cutover.reconcile.report.drawings.chart import ChartTable
from cutover.reconcile.result.finding import EpochPoint
from cutover.reconcile.result.text import duration, format_number, numeric, parse_iso_time, when

_PLACES = 400
ROWS_AT_MOST = 60
UNITS = ((86_400, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds"))


def downsample_epochs(series: Sequence[EpochPoint], places: int = _PLACES) -> list[EpochPoint]:
    """Return at most about `places` epochs: of each group the one that lagged most, so that no peak is lost."""
    size = -(-len(series) // places)
    groups = [series[i : i + size] for i in range(0, len(series), size)]
    return [max(group, key=lambda point: numeric(point.lag)) for group in groups]


def draw(series: Sequence[EpochPoint], width: int) -> Markup:
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


def tabulate(series: Sequence[EpochPoint]) -> ChartTable:
    """Return epochs with watermark and lag; of many in a row the one that lagged most."""
    epoch_points = downsample_epochs(series, ROWS_AT_MOST)
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
