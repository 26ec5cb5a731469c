"""The page of one comparison: everything in one file, no remote asset, one script, values escaped.

Undefined names raise, so a test notices a missing field, not a reader.
"""

from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from cutover.definition.loading.key_text import format_columns
from cutover.log.topic_partitions import format_number
from cutover.output.cells import visible
from cutover.reconcile.advisor import advice_text
from cutover.reconcile.report import charts, outline, repeat, runbooks, script, steps, tree, verdicts
from cutover.reconcile.report.drawings import calendar, epochs, rates
from cutover.reconcile.result import cost_text, lateness_text, settlement_text, text
from cutover.reconcile.result.codec import Scalar
from cutover.reconcile.result.error_rates import list_uncounted
from cutover.reconcile.result.finding import SideNames
from cutover.reconcile.result.report import Report
from cutover.reconcile.result.tables_text import describe_equal_within, describe_readings

_TEMPLATES = Path(__file__).parent / "templates"
LONGEST_TEXT = 4_000
"""Characters of any other text than a value of data, which has fewer: a page with keys of a megabyte opens nowhere."""


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
        number,
        format_number,
        key_text,
        text.format_signed,
        text.share,
        text.when,
        text.duration,
        text.minutes,
        text.describe_life,
        text.describe_lives,
        *lateness_text.FILTERS,
        *advice_text.FILTERS,
        cost_text.size_text,
        cost_text.nines_text,
        cost_text.describe_waiting,
        cost_text.describe_waiting_basis,
        cost_text.describe_difference,
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


def number(value: Scalar) -> str:
    """Return a value of a measure as people read it, a long text cut."""
    return text.number(cut(value))


def key_text(key: Mapping[str, Scalar]) -> str:
    """Return a key as `origin=EWR, carrier=UA`, long texts cut."""
    return format_columns({name: cut(value) for name, value in key.items()})


def _view(result: Report) -> dict[str, Any]:
    finding, is_pipeline = result.finding, result.finding.kind == "pipeline"
    labels = finding.sides if is_pipeline else SideNames(expected="left", actual="right")  # a path is no heading
    name = verdicts.find_runbook(result)
    return {
        "r": finding,
        "run": result.run,
        "report": result,
        "labels": labels,
        "style": Markup((_TEMPLATES / "style.css").read_text(encoding="utf-8")),  # noqa: S704 -- an internal file
        "script": Markup(script.text()),  # noqa: S704 -- the same
        "policy": script.policy(),
        "verdict_style": verdicts.find_report_style(result),
        "is_pipeline": is_pipeline,
        "is_comparable": finding.verdict != "NOT_COMPARABLE",
        "sections": outline.sections(result),
        "because": text.counts(result.finding.windows.incomplete_because),
        "causes": _causes(result),
        "runbook": name,
        "runbook_html": runbooks.html(name, partial(steps.fill_runbook, result=result)) if name else None,
        "details": steps.details(result),
        "advice_heads": advice_text.HEADS,
        "proof_heads": advice_text.PROOF_HEADS,
        "commands": repeat.commands(result),
        **_charts(result, labels),
        **_tables(result),
    }


def _charts(result: Report, labels: SideNames) -> dict[str, Any]:
    return {
        "trend_chart": charts.trend_of_runs(result),
        "calendar_chart": charts.calendar_of_windows(result),
        "legend": calendar.legend(result.finding.days),
        "waterfalls": charts.waterfalls(result, labels),
        "windows_chart": charts.windows_over_time(result, labels),
        "lateness_chart": charts.lateness_histogram(result),
        "settlement_chart": charts.settlement_curve(result),
        "settled": None
        if result.settlement is None
        else settlement_text.describe_settlement(result.settlement, result.finding.pipeline),
        "epochs_chart": charts.watermark_over_epochs(result),
        "lag": epochs.describe_lag(result.finding.epochs_series),
        "error_rates": rates.rows(result.self_test),
        "uncounted": () if result.self_test is None else list_uncounted(result.self_test),
    }


def _tables(result: Report) -> dict[str, Any]:
    return {
        "tree": tree.build(result),
        "flat": [cell for cell in result.finding.differences if cell.window_start is None],
        "fold": tree.OPEN_AT_MOST,
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
