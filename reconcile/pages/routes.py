"""Addresses of the pages and their HTML: every address checks who reads, none performs an action.

Approvals are given in Airflow's Required Actions and rollbacks on the command line, so no form here can be forged.
Values are escaped; there is no script and no request, and one style, which the policy allows by its digest.

Source: W3C, Content Security Policy Level 3, section 2.3.1 (`hash-source`).
"""

import base64
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import FileResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from cutover import runbooks
from cutover.definition.model.pipeline import Pipeline
from cutover.reconcile.pages.view import (
    FORMS,
    PageInputs,
    PipelineLine,
    PipelineView,
    bound_waiting,
    find_file,
    is_pipeline_name,
)
from cutover.reconcile.report import page, steps
from cutover.reconcile.result import text
from cutover.reconcile.watch.status import describe_late_share
from cutover.settings import Settings
from cutover.timestamps import from_micros

_TEMPLATES = Path(__file__).parent / "templates"

PREFIX = "/cutover"
_PLAIN = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store"}
_FRAMED = "; frame-ancestors 'self'"
_Short = Annotated[str | None, Query(max_length=12)]
_Id = Annotated[str | None, Query(max_length=250)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Readers and runs as known by the server that shows the pages."""

    user: Callable[..., Any]  # a dependency of FastAPI: returns who reads, or answers 401
    may_read: Callable[[Any, str], bool]  # a user, the id of a DAG: may they read it and its logs
    reports_of_run: Callable[[str, str, int | None], Iterable[str]]  # DAG, run, map index -> addresses of its reports


@cache
def _style() -> str:
    return (_TEMPLATES / "pages.css").read_text(encoding="utf-8")


@cache
def make_page_policy() -> str:
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
    names = runbooks.list_runbooks()
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
    for function in (text.count_noun, text.duration, at, format_event_time, describe_late_share):
        environment.filters[function.__name__] = function
    return environment


def at(value: datetime) -> str:
    """Return a time of the wall clock, in UTC, which the page's head says once."""
    return f"{value:%Y-%m-%d %H:%M:%S}"


def format_event_time(micros: int | None) -> str:
    """Return an event time in microseconds; `none` where there is none."""
    return "none" if micros is None else at(from_micros(micros))


def _escape_value(value: Any) -> Any:
    """Make control characters visible in whatever a template writes that is not trusted markup."""
    is_text = isinstance(value, str) and not isinstance(value, Markup)
    return text.message(value) if is_text else value


def make_app(settings: Settings, access: Access) -> FastAPI:
    """Return the pages as an application that a server mounts under `PREFIX`.

    Every address needs a user, an unknown one too; one of a pipeline needs one who may read its reconcile DAG.
    """

    def note_reader(request: Request, user: Annotated[Any, Depends(access.user)]) -> None:
        request.state.reader = user

    # Neither a description of the addresses nor its page: they would be public, and the page is a foreign script's.
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, dependencies=[Depends(note_reader)])
    routes = _Routes(PageInputs(settings=bound_waiting(settings)), access)
    for path, answer in (
        ("/", routes.list_pipelines),
        ("/pipelines/{name}", routes.show_pipeline),
        ("/reports/{name}/{file}", routes.show_report),
        ("/runbooks/{name}", routes.show_runbook),
        ("/open", routes.open_dag),
        ("/{path:path}", routes.refuse),
    ):
        app.add_api_route(path, answer, methods=["GET"], response_model=None)
    return app


class _Routes:
    """Answers the requests of readers, who are known by then."""

    def __init__(self, inputs: PageInputs, access: Access) -> None:
        self._inputs, self._access = inputs, access

    def list_pipelines(self, request: Request) -> Response:
        """Show those that the reader may read."""
        pipelines, problems = self._inputs.find_pipelines()
        readable = [pipeline for name, pipeline in sorted(pipelines.items()) if self._may_read(request, name)]
        return _show(render_index([self._inputs.summary(pipeline) for pipeline in readable], problems))

    def show_pipeline(self, request: Request, name: str) -> Response:
        """Show the page of one."""
        return _show(render_pipeline(self._inputs.view(self._find(request, name))))

    def show_report(self, request: Request, name: str, file: str) -> Response:
        """Send a file of a report: a page to be shown, any other form to be saved."""
        pipeline = self._find(request, name)
        path = find_file(self._inputs.settings, pipeline.name, file)
        if path is None:
            raise _not_here()
        is_page = path.suffix == ".html"
        policy = page.make_report_policy() + _FRAMED if is_page else "default-src 'none'; sandbox"
        saved_as = None if is_page else f"{pipeline.name}-{path.name}"
        headers = _PLAIN | {"Content-Security-Policy": policy}
        return FileResponse(path, media_type=FORMS[path.suffix], filename=saved_as, headers=headers)

    def show_runbook(self, name: str) -> Response:
        """Show one of the pages for people on call; they hold no data."""
        body = steps.html(name)
        if body is None:
            raise _not_here()
        return _show(render_runbook(name, body))

    def open_dag(self, request: Request, dag_id: str, run_id: _Id = None, map_index: _Short = None) -> Response:
        """Lead from a DAG, a run or a task to its report; where it has none, to the page of its pipeline."""
        name, _, path = dag_id.rpartition("_")
        pipeline = self._find(request, name)
        report_paths = self._find_reports(pipeline, dag_id, run_id, map_index) if path == "reconcile" else []
        if len(report_paths) == 1:
            return _redirect(f"reports/{pipeline.name}/{report_paths[0]}")
        return (
            _show(render_run(pipeline.name, report_paths)) if report_paths else _redirect(f"pipelines/{pipeline.name}")
        )

    def refuse(self, path: str) -> Response:  # noqa: ARG002 -- whatever it is
        """Answer every other address with 404, to users alone."""
        raise _not_here()

    def _may_read(self, request: Request, name: str) -> bool:
        return self._access.may_read(request.state.reader, f"{name}_reconcile")

    def _find(self, request: Request, name: str) -> Pipeline:
        if not is_pipeline_name(name):
            raise _not_here()
        if not self._may_read(request, name):
            raise HTTPException(403, "Forbidden")
        pipeline = self._inputs.find_pipelines()[0].get(name)
        if pipeline is None:
            raise _not_here()
        return pipeline

    def _find_reports(self, pipeline: Pipeline, dag_id: str, run_id: str | None, map_index: str | None) -> list[str]:
        """Return the pages of reports that a DAG, a run or a task leads to, if they exist."""
        if not run_id:
            newest = self._inputs.newest_page(pipeline)
            return [] if newest is None else [newest]
        index = int(map_index) if map_index and map_index.isdecimal() else None
        # What a run left in Airflow's database may be any text: only its last part is used, as a file's name.
        names = (address.rpartition("/")[2] for address in self._access.reports_of_run(dag_id, run_id, index))
        settings = self._inputs.settings
        return [name for name in dict.fromkeys(names) if find_file(settings, pipeline.name, name) is not None]


def _not_here() -> HTTPException:
    return HTTPException(404, "Not here.")


def _show(page: str) -> Response:
    headers = _PLAIN | {"Content-Security-Policy": make_page_policy() + _FRAMED}
    return Response(page, media_type="text/html; charset=utf-8", headers=headers)


def _redirect(path: str) -> Response:
    return RedirectResponse(f"{PREFIX}/{path}", status_code=303, headers=_PLAIN)
