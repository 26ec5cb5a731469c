"""Comparisons in a row: the rows that differed in each, those without a cause separately, and its verdict as a sign."""

from collections.abc import Sequence

from markupsafe import Markup

from cutover.output import svg
from cutover.output.svg import NARROW, Box
from cutover.reconcile.report import verdicts
from cutover.reconcile.report.drawings import axes
from cutover.reconcile.report.drawings.chart import ChartTable
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.overview import RunOfTrend
from cutover.reconcile.result.text import number, share, when

_WIDEST = 44.0
_LEAST = 2.0  # pixels of a bar whose share is too small to be seen


def draw(runs: Sequence[RunOfTrend], width: int) -> Markup:
    """Return the newest runs as SVG, the oldest of them on the left."""
    shown_runs = runs[-14:] if width <= NARROW else runs
    box = Box(left=52, top=26, width=width - 64, height=54)
    scale, parts = axes.vertical(box, 0, max(1, *(run.rows for run in shown_runs)), about=2, label=_format_whole)
    parts.append(axes.caption(box, "rows that differ, by comparison"))
    step = min(box.width / len(shown_runs), _WIDEST)
    for place, run in enumerate(shown_runs):
        slot = Box(left=box.left + place * step, top=box.top, width=step, height=box.height)
        parts += _draw_run(run, slot, scale)
    last_x = box.left + (len(shown_runs) - 0.5) * step
    parts.append(svg.text(box.left, box.bottom + 38, when(shown_runs[0].at), class_="tick"))
    if len(shown_runs) > 1 and last_x > box.left + 240:
        parts.append(svg.text(last_x + step / 2, box.bottom + 38, when(shown_runs[-1].at), anchor="end"))
    label = f"Trend of {len(shown_runs)} comparisons: " + ", ".join(_describe_run(run) for run in shown_runs[-5:])
    return svg.drawing(width, box.bottom + 44, label, *parts)


def _format_whole(value: float) -> str:
    return axes.format_axis_value(value) if value == int(value) else ""


def _draw_run(run_of_trend: RunOfTrend, slot: Box, scale: svg.Scale) -> list[Markup]:
    shape = verdicts.find_style(Verdict(run_of_trend.verdict), within=run_of_trend.within)
    middle, wide = slot.left + slot.width / 2, max(slot.width * 0.6, 2.0)
    parts = []
    for rows, class_ in ((run_of_trend.rows, "cause"), (run_of_trend.unexplained, "cause-unexplained")):
        if rows:
            high = max(slot.bottom - scale(rows), _LEAST)
            bar = Box(left=middle - wide / 2, top=slot.bottom - high, width=wide, height=high)
            parts.append(svg.bar(bar, class_, f"{when(run_of_trend.at)}: {_describe_run(run_of_trend)}"))
    parts.append(svg.text(middle, slot.bottom + 18, shape.sign, anchor="middle", class_=f"mark tone-{shape.tone}"))
    return parts


def _describe_run(run_of_trend: RunOfTrend) -> str:
    word = verdicts.find_style(Verdict(run_of_trend.verdict), within=run_of_trend.within).word
    return (
        word if run_of_trend.verdict == Verdict.NOT_COMPARABLE else f"{word}, {number(run_of_trend.rows)} rows differ"
    )


def tabulate(runs: Sequence[RunOfTrend]) -> ChartTable:
    """Return the comparisons, the newest first."""
    rows = tuple(
        (
            when(run.at),
            verdicts.find_style(Verdict(run.verdict), within=run.within).word,
            "none" if run.epoch is None else number(run.epoch),
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
    return (*map(number, counts), share(run_of_trend.late_share))
