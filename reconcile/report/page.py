"""The page of one comparison: everything in one file, no remote asset, one script, values escaped.

Sections stand in the order of their list; each is a file of its name in `templates/sections`. Undefined names raise, so
a test notices a missing field, not a reader. Charts are drawn by pure functions, from the result's data to SVG and to
the table behind it, each for a wide and for a narrow page, so that its texts stay readable. Without data a function
returns None, and the page says so in words. The browser's policy names the one script by its digest.

Source: W3C, Content Security Policy Level 3, section 2.3.1 (`hash-source`).
"""

import base64
import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from cutover.definition.loading.key_text import format_columns
from cutover.log.topic_partitions import format_partition_number
from cutover.output.cells import visible
from cutover.output.svg import NARROW, WIDE, element
from cutover.reconcile.advisor import advice_text
from cutover.reconcile.report import steps
from cutover.reconcile.report.drawings import curves, windows
from cutover.reconcile.report.drawings.chart import Chart
from cutover.reconcile.result import lateness_text, text
from cutover.reconcile.result.codec import Scalar
from cutover.reconcile.result.finding import SideNames, Waterfall
from cutover.reconcile.result.parts import list_uncounted
from cutover.reconcile.result.report import (
    Report,
    describe_difference,
    describe_waiting,
    describe_waiting_basis,
    nines_text,
    size_text,
)
from cutover.reconcile.result.text import describe_equal_within, describe_readings, numeric
from cutover.reconcile.verdict import decision

_FILE = Path(__file__).parent / "templates" / "filter.js"


@cache
def read_script() -> str:
    """Return what stands between the tags: it reads the page's own text, and writes none of it as markup."""
    return _FILE.read_text(encoding="utf-8")


@cache
def make_report_policy() -> str:
    """Return the Content-Security-Policy of a report: no request of any kind, inline styles, this script alone."""
    digest = base64.b64encode(hashlib.sha256(read_script().encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )


Section = tuple[str, str]
"""Its id, and its name among the links at the top."""
LONGEST_TEXT = 4_000
"""Characters of any other text than a value of data, which has fewer: a page with keys of a megabyte opens nowhere."""


def draw_both_widths(draw: Callable[[int], Markup]) -> Markup:
    """Return a drawing for wide and one for narrow pages; the style sheet shows one of them."""
    return element("div", draw(WIDE), class_="wide") + element("div", draw(NARROW), class_="narrow")


def trend_of_runs(result: Report) -> Chart | None:
    """Return the comparisons before this one and itself; one alone is no trend."""
    if len(result.trend) < 2:  # noqa: PLR2004 -- a trend has two ends
        return None
    return Chart(
        picture=draw_both_widths(lambda width: curves.draw_trend(result.trend, width)),
        table=curves.tabulate_trend(result.trend),
    )


def calendar_of_windows(result: Report) -> Chart | None:
    """Return the days on which windows start, coloured by their worst cause."""
    if not result.finding.days:
        return None
    return Chart(
        picture=draw_both_widths(lambda width: windows.draw_calendar(result.finding.days, width)),
        table=windows.tabulate(result.finding.days),
    )


def waterfalls(result: Report, labels: SideNames) -> list[tuple[Waterfall, Chart | None]]:
    """Return each measure with its waterfall; None where nothing stands between the two totals."""

    def picture(steps_of_measure: Waterfall) -> Chart | None:
        if all(numeric(step.amount) == 0 for step in steps_of_measure.steps):
            return None
        drawings = draw_both_widths(lambda width: windows.draw_waterfall(steps_of_measure, labels, width))
        return Chart(picture=drawings, table=windows.tabulate_waterfall(steps_of_measure, labels))

    return [(steps_of_measure, picture(steps_of_measure)) for steps_of_measure in result.finding.waterfall]


def windows_over_time(result: Report, labels: SideNames) -> Chart | None:
    """Return both sides by window and the rows that differ."""
    if not windows.bins(result.finding.window_series, 1)[1]:
        return None
    measure, series = (
        result.finding.waterfall[0].measure if result.finding.waterfall else "rows",
        result.finding.window_series,
    )
    return Chart(
        picture=draw_both_widths(lambda width: windows.draw_windows(series, measure, labels, width)),
        table=windows.tabulate_windows(series, measure, labels),
    )


def lateness_histogram(result: Report) -> Chart | None:
    """Return how late the late records were."""
    histogram = result.finding.lateness_histogram
    if not any(lateness_bin.events for lateness_bin in histogram):
        return None
    return Chart(
        picture=draw_both_widths(lambda width: curves.draw_lateness(histogram, width)),
        table=curves.tabulate_lateness(histogram),
    )


def settlement_curve(result: Report) -> Chart | None:
    """Return what the log and the stream's answer hold of windows, by age."""
    curve = result.settlement
    if curve is None:
        return None
    return Chart(
        picture=draw_both_widths(lambda width: curves.draw_settlement(curve, width)),
        table=curves.tabulate_settlement(curve),
    )


def watermark_over_epochs(result: Report) -> Chart | None:
    """Draw watermark and newest event by epoch, wide and narrow; None without epochs."""
    epochs_series = result.finding.epochs_series
    if not epochs_series:
        return None
    return Chart(
        picture=draw_both_widths(lambda width: curves.draw_epochs(epochs_series, width)),
        table=curves.tabulate_epochs(epochs_series),
    )


def sections(result: Report) -> list[Section]:
    """Return the sections that a comparison has something to say in; what it is about first, then the evidence."""
    report_sections = [("compared", "Compared data")]
    if result.finding.jobs:
        report_sections.append(("jobs", "Your jobs"))
    if result.finding.verdict != "NOT_COMPARABLE":
        report_sections += _of_findings(result)
    report_sections += _of_evidence(result)
    if decision.find_runbook(result):
        report_sections.append(("runbook", "What to do"))
    if steps.commands(result):
        report_sections.append(("deeper", "Repeat"))
    return report_sections


def _of_findings(result: Report) -> Iterator[Section]:
    is_pipeline = result.finding.kind == "pipeline"
    if is_pipeline or result.finding.days:
        yield "calendar", "Calendar"
    if is_pipeline or result.finding.waterfall:
        yield "causes", "Causes" if is_pipeline else "Totals"
    yield "differences", "Differences"
    if is_pipeline or windows.bins(result.finding.window_series, 1)[1]:
        yield "windows", "Windows"
    yield "keys", "Keys"
    if result.finding.apart:
        yield "apart", "How far"
    if result.finding.segments:
        yield "segments", "Where"
    if result.finding.accepted:
        yield "accepted", "Accepted"
    if is_pipeline:
        yield from _of_lateness(result)
        yield "noise", "Noise"
        if result.finding.streaming_job is None:  # the watermarks of a job are not ours to set
            yield "advice", "Advice"
        yield "watermark", "Watermark"
        yield "samples", "Records"
        yield "contract", "Contract"


def _of_lateness(result: Report) -> Iterator[Section]:
    yield "lateness", "Lateness"
    if result.finding.streaming_job is None:
        yield "log-lateness", "Lateness of the log"
    if result.settlement is not None:
        yield "settlement", "Settlement"
    if result.early is not None or result.finding.open_answers is not None:
        yield "early", "Early answers"


def _of_evidence(result: Report) -> Iterator[Section]:
    if result.finding.losses:
        yield "lost", "Lost records"
    if result.finding.kind == "pipeline":
        yield "selftest", "Self-test"
        if result.cost is not None:
            yield "cost", "Cost"
        yield "seal", "Seal"
    if result.finding.readings or result.finding.equal_within:
        yield "reading", "How it was read"
    if result.finding.notes:
        yield "notes", "Notes"


_TEMPLATES = Path(__file__).parent / "templates"


def render_page(result: Report) -> str:
    """Return the report of one comparison, of a pipeline or of two tables, as HTML."""
    html = _environment().get_template("report.html.j2").render(**_view(result))
    # Text that was joined to trusted markup (charts, concatenations) has bypassed `finalize`.
    return "\n".join(visible(line) for line in html.split("\n"))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_escape_value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for function in (
        cut,
        format_cut_number,
        format_partition_number,
        key_text,
        text.count_noun,
        text.format_signed,
        text.share,
        text.when,
        text.duration,
        text.minutes,
        text.describe_life,
        text.describe_lives,
        *lateness_text.FILTERS,
        *advice_text.FILTERS,
        size_text,
        nines_text,
        describe_waiting,
        describe_waiting_basis,
        describe_difference,
    ):
        environment.filters[function.__name__] = function
    return environment


def _escape_value(value: Any) -> Any:
    """Make control characters visible in whatever a template writes that is not trusted markup."""
    is_text = isinstance(value, str) and not isinstance(value, Markup)
    return text.message(cut(value, LONGEST_TEXT)) if is_text else value


def cut(value: Any, limit: int = text.LONGEST_VALUE) -> Any:
    """Return a text with its length in place of what is beyond `limit` characters; anything else as it is."""
    return text.cut_text(value, limit) if isinstance(value, str) and not isinstance(value, Markup) else value


def format_cut_number(value: Scalar) -> str:
    """Return a value of a measure as people read it, a long text cut."""
    return text.format_number(cut(value))


def key_text(key: Mapping[str, Scalar]) -> str:
    """Return a key as `origin=EWR, carrier=UA`, long texts cut."""
    return format_columns({name: cut(value) for name, value in key.items()})


def _view(result: Report) -> dict[str, Any]:
    finding, is_pipeline = result.finding, result.finding.kind == "pipeline"
    labels = finding.sides if is_pipeline else SideNames(expected="left", actual="right")  # a path is no heading
    name = decision.find_runbook(result)
    return {
        "r": finding,
        "run": result.run,
        "report": result,
        "labels": labels,
        "style": Markup((_TEMPLATES / "style.css").read_text(encoding="utf-8")),  # noqa: S704 -- an internal file
        "script": Markup(read_script()),  # noqa: S704 -- the same
        "policy": make_report_policy(),
        "verdict_style": decision.find_report_style(result),
        "is_pipeline": is_pipeline,
        "is_comparable": finding.verdict != "NOT_COMPARABLE",
        "sections": sections(result),
        "because": text.counts(result.finding.windows.incomplete_because),
        "causes": _causes(result),
        "runbook": name,
        "runbook_html": steps.html(name, partial(steps.fill_runbook, result=result)) if name else None,
        "details": steps.details(result),
        "advice_heads": advice_text.HEADS,
        "proof_heads": advice_text.PROOF_HEADS,
        "commands": steps.commands(result),
        **_charts(result, labels),
        **_tables(result),
    }


def _charts(result: Report, labels: SideNames) -> dict[str, Any]:
    return {
        "trend_chart": trend_of_runs(result),
        "calendar_chart": calendar_of_windows(result),
        "legend": windows.legend(result.finding.days),
        "waterfalls": waterfalls(result, labels),
        "windows_chart": windows_over_time(result, labels),
        "lateness_chart": lateness_histogram(result),
        "late_amounts": lateness_text.describe_late_amounts(result.finding.waterfall),
        "settlement_chart": settlement_curve(result),
        "settled": None
        if result.settlement is None
        else lateness_text.describe_settlement(result.settlement, result.finding.own_stream),
        "epochs_chart": watermark_over_epochs(result),
        "lag": curves.describe_lag(result.finding.epochs_series),
        "error_rates": curves.list_rate_rows(result.self_test),
        "uncounted": () if result.self_test is None else list_uncounted(result.self_test),
    }


def _tables(result: Report) -> dict[str, Any]:
    return {
        "tree": steps.build(result),
        "flat": [cell for cell in result.finding.differences if cell.window_start is None],
        "fold": steps.OPEN_AT_MOST,
        "worst": _worst(result),
        "readings": [*describe_readings(result.finding.readings)],
        "equal_within": [*describe_equal_within(result.finding.equal_within)],
    }


def _causes(result: Report) -> list[tuple[str, int, int]]:
    """Return cause, rows, records; those that explain something first, `unexplained` always there."""
    causes = [(name, cause.rows, cause.events) for name, cause in result.finding.causes.items()]
    return [c for c in causes if c[1] or c[2] or c[0] == "unexplained"]


def _worst(result: Report) -> list[tuple[Any, float]]:
    """Return the worst keys, each with its share of the worst one's rows, for the bar behind its number."""
    largest = max((key.rows for key in result.finding.worst_keys), default=1) or 1
    return [(key, key.rows / largest) for key in result.finding.worst_keys]
