"""The addresses of the pages: every one asks who reads, none takes an action.

Approvals are given in Airflow's Required Actions and rollbacks on the command line, so no form here can be forged.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import FileResponse, RedirectResponse

from cutover.definition.model.pipeline import Pipeline
from cutover.reconcile.pages import html
from cutover.reconcile.pages.inputs import PageInputs
from cutover.reconcile.pages.report_files import FORMS, find_file, is_pipeline_name
from cutover.reconcile.pages.view import bound_waiting
from cutover.reconcile.report import runbooks, script
from cutover.settings import Settings

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
        return _show(html.render_index([self._inputs.summary(pipeline) for pipeline in readable], problems))

    def show_pipeline(self, request: Request, name: str) -> Response:
        """Show the page of one."""
        return _show(html.render_pipeline(self._inputs.view(self._find(request, name))))

    def show_report(self, request: Request, name: str, file: str) -> Response:
        """Send a file of a report: a page to be shown, any other form to be saved."""
        pipeline = self._find(request, name)
        path = find_file(self._inputs.settings, pipeline.name, file)
        if path is None:
            raise _not_here()
        is_page = path.suffix == ".html"
        policy = script.policy() + _FRAMED if is_page else "default-src 'none'; sandbox"
        saved_as = None if is_page else f"{pipeline.name}-{path.name}"
        headers = _PLAIN | {"Content-Security-Policy": policy}
        return FileResponse(path, media_type=FORMS[path.suffix], filename=saved_as, headers=headers)

    def show_runbook(self, name: str) -> Response:
        """Show one of the pages for people on call; they hold no data."""
        body = runbooks.html(name)
        if body is None:
            raise _not_here()
        return _show(html.render_runbook(name, body))

    def open_dag(self, request: Request, dag_id: str, run_id: _Id = None, map_index: _Short = None) -> Response:
        """Lead from a DAG, a run or a task to its report; where it has none, to the page of its pipeline."""
        name, _, path = dag_id.rpartition("_")
        pipeline = self._find(request, name)
        report_paths = self._find_reports(pipeline, dag_id, run_id, map_index) if path == "reconcile" else []
        if len(report_paths) == 1:
            return _redirect(f"reports/{pipeline.name}/{report_paths[0]}")
        return (
            _show(html.render_run(pipeline.name, report_paths))
            if report_paths
            else _redirect(f"pipelines/{pipeline.name}")
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
    headers = _PLAIN | {"Content-Security-Policy": html.policy() + _FRAMED}
    return Response(page, media_type="text/html; charset=utf-8", headers=headers)


def _redirect(path: str) -> Response:
    return RedirectResponse(f"{PREFIX}/{path}", status_code=303, headers=_PLAIN)
