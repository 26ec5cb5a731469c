"""The page of one comparison: everything in one file, no script, no remote asset, values escaped.

Undefined names raise, so a field that is gone is noticed by a test and not by a reader.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from cutover.output.cells import visible
from cutover.reconcile.report import charts, drill_down, runbooks, verdicts
from cutover.reconcile.result import text
from cutover.reconcile.result.outcome import Reconciliation, SideNames

_TEMPLATES = Path(__file__).parent / "templates"
_SHOWN = 20  # differences before the fold


def render(result: Reconciliation) -> str:
    """Return the report of one comparison, of a pipeline or of two tables, as HTML."""
    html = _environment().get_template("report.html.j2").render(**_view(result))
    # What joined markup of ours on its way (charts, concatenations) has passed `finalize` unseen.
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
        text.number,
        text.format_signed,
        text.share,
        text.when,
        text.duration,
        text.key_text,
        text.minutes,
    ):
        environment.filters[function.__name__] = function
    return environment


def _escape_value(value: Any) -> Any:
    """Make control characters visible in whatever a template writes that is not markup of ours."""
    return text.message(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _view(original: Reconciliation) -> dict[str, Any]:
    result = _shorten_sides(original)
    name = verdicts.runbook(result)
    return {
        "r": result,
        "sides": original.sides,
        "style": Markup((_TEMPLATES / "style.css").read_text(encoding="utf-8")),  # noqa: S704 -- a file of ours
        "look": verdicts.look(result),
        "is_pipeline": result.kind == "pipeline",
        "is_comparable": result.verdict != "NOT_COMPARABLE",
        "because": text.counts(result.windows.incomplete_because),
        "causes": _causes(result),
        "waterfalls": charts.waterfalls(result),
        "windows_chart": charts.windows_over_time(result),
        "lateness_chart": charts.lateness_histogram(result),
        "settled": None if result.settlement is None else text.describe_settlement(result.settlement),
        "epochs_chart": charts.watermark_over_epochs(result),
        "first_differences": result.differences[:_SHOWN],
        "more_differences": result.differences[_SHOWN:],
        "worst": _worst(result),
        "runbook": name,
        "runbook_html": runbooks.html(name) if name else None,
        "commands": drill_down.commands(result),
    }


def _shorten_sides(result: Reconciliation) -> Reconciliation:
    """Return the result with short names of its sides: a path is no heading."""
    return replace(result, sides=SideNames(expected="left", actual="right")) if result.kind == "tables" else result


def _causes(result: Reconciliation) -> list[tuple[str, int, int]]:
    """Return cause, rows, records; those that explain something first, `unexplained` always there."""
    found = [(name, cause.rows, cause.events) for name, cause in result.causes.items()]
    return [c for c in found if c[1] or c[2] or c[0] == "unexplained"]


def _worst(result: Reconciliation) -> list[tuple[Any, float]]:
    """Return the worst keys, each with its share of the worst one's rows, for the bar behind its number."""
    most = max((key.rows for key in result.worst_keys), default=1) or 1
    return [(key, key.rows / most) for key in result.worst_keys]
