"""The pages as HTML: values escaped, no script, no request, one style that the policy allows by its digest.

Source: W3C, Content Security Policy Level 3, section 2.3.1 (`hash-source`).
"""

import base64
import hashlib
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from cutover.reconcile.pages.view import PipelineLine, PipelineView
from cutover.reconcile.result import text
from cutover.reconcile.watch.status import describe_late_share
from cutover.runbooks import folder
from cutover.timestamps import from_micros

_TEMPLATES = Path(__file__).parent / "templates"


@cache
def _style() -> str:
    return (_TEMPLATES / "pages.css").read_text(encoding="utf-8")


@cache
def policy() -> str:
    """Return the Content-Security-Policy of the pages: their own style, and nothing else."""
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def render_index(summaries: Sequence[PipelineLine], problems: Sequence[str]) -> str:
    """Return the list of pipelines, and what is wrong with the definitions that do not load."""
    return _render("index", title="Pipelines", summaries=summaries, problems=problems)


def render_pipeline(view: PipelineView) -> str:
    """Show gate, reports, stream, differences, cost, and the runbooks that its alerts and its verdict name."""
    stream, reports = view.stream.value, view.reports.value or ()
    firing = [alert.name for alert in stream.alerts] if stream else []
    named_runbooks = [report.runbook for report in reports[:1] if report.runbook]
    return _render("pipeline", title=view.pipeline, v=view, runbooks=list(dict.fromkeys([*firing, *named_runbooks])))


def render_run(pipeline: str, names: Sequence[str]) -> str:
    """List pages by their files' names: one run may have compared at several cuts."""
    return _render("run", title=f"Reports of this run of {pipeline}", pipeline=pipeline, names=names)


def render_runbook(name: str, body: Markup) -> str:
    """Frame a page of `docs/runbooks`, already HTML, in the style of the others."""
    return _render("runbook", title=name, body=body)


def _render(name: str, **values: Any) -> str:
    names = folder.list_names()
    style = Markup(_style())  # noqa: S704 -- an internal file
    return _environment().get_template(f"{name}.html.j2").render(style=style, all_runbooks=names, **values)


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
    for function in (text.duration, at, moment, describe_late_share):
        environment.filters[function.__name__] = function
    return environment


def at(value: datetime) -> str:
    """Return a time of the wall clock, in UTC, which the page's head says once."""
    return f"{value:%Y-%m-%d %H:%M:%S}"


def moment(micros: int | None) -> str:
    """Return an event time in microseconds; `none` where there is none."""
    return "none" if micros is None else at(from_micros(micros))


def _escape_value(value: Any) -> Any:
    """Make control characters visible in whatever a template writes that is not trusted markup."""
    is_text = isinstance(value, str) and not isinstance(value, Markup)
    return text.message(value) if is_text else value
