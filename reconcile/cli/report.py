"""`cutover report`: where reports are, what they say in other forms, and a server of them.

The server is for a browser on this machine: on loopback, with the files of the reports folder, and nothing else.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from cutover.cli.definitions import find_definitions, load_command_definition
from cutover.counts import count_noun
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError
from cutover.output.console import Output, Verbatim, encode_json
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.cli import show
from cutover.reconcile.report import files, page
from cutover.reconcile.result.report import Report
from cutover.reconcile.verdict import history
from cutover.settings import Settings, load_settings

HOST = "127.0.0.1"


class _Handler(SimpleHTTPRequestHandler):
    """Files below a folder, links followed nowhere, folders not listed; nothing on the terminal."""

    def send_head(self) -> Any:
        """Serve a file that lies inside the folder; anything else is not found."""
        root, path = Path(self.directory).resolve(), Path(self.translate_path(self.path))
        if not path.is_file() or path.name.startswith(".") or not path.resolve().is_relative_to(root):
            self.send_error(404)
            return None
        return super().send_head()

    def end_headers(self) -> None:
        """Forbid other scripts than the report's own, and requests elsewhere."""
        self.send_header("Content-Security-Policy", page.make_report_policy())
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base's name
        """Say nothing."""


@contextmanager
def open_server(folder: Path, port: int) -> Iterator[ThreadingHTTPServer]:
    """Yield a server of a folder on loopback; `serve_forever` runs it.

    Args:
        folder: The reports.
        port: 0: any that is free.

    Raises:
        OSError: The port is in use.
    """
    with ThreadingHTTPServer((HOST, port), partial(_Handler, directory=str(folder))) as server:
        yield server


class ReportForm(StrEnum):
    """Form in which a report is printed."""

    ADDRESS = "address"
    MARKDOWN = "markdown"
    JSON = "json"
    PROMETHEUS = "prometheus"


def report(
    pipeline: Annotated[str | None, typer.Argument(help="Name of a pipeline; none: all.")] = None,
    *,
    list_all: Annotated[bool, typer.Option("--all", help="List every report, not the newest alone.")] = False,
    form: Annotated[
        ReportForm, typer.Option("--format", help="What is printed of the newest report.")
    ] = ReportForm.ADDRESS,
    differences: Annotated[
        Path | None, typer.Option("--differences", help="Copy every row that differs into this Parquet file.")
    ] = None,
    serve: Annotated[bool, typer.Option("--serve", help="Serve the reports on 127.0.0.1 until it is stopped.")] = False,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Of --serve; 0: any that is free.")] = 0,
) -> Iterator[Output]:
    """Print the address of the newest report of each pipeline, or what it says, or serve all of them."""
    settings = load_settings()
    if serve:
        yield from _serve(settings, port)
        return
    definitions = (
        find_definitions(settings) if pipeline is None else {pipeline: load_command_definition(settings, pipeline)}
    )
    if differences is not None:
        yield _copy_differences(settings, definitions, differences)
    elif form is ReportForm.ADDRESS:
        yield from _list_addresses(settings, definitions, list_all=list_all)
    else:
        yield _output_newest(settings, definitions, form)


def _output_newest(settings: Settings, definitions: dict[str, Pipeline], form: ReportForm) -> Output:
    newest_reports = [
        report
        for name in sorted(definitions)
        if (report := _read_newest(PipelineLake(settings, definitions[name]))) is not None
    ]
    if not newest_reports:
        _reject_missing(settings, definitions)
    documents = [report.to_json() for report in newest_reports]
    return Output(document=documents, lines=[Verbatim(_format(newest_reports, form))])


def _format(reports: list[Report], form: ReportForm) -> str:
    if form is ReportForm.PROMETHEUS:
        return files.render_prometheus(reports)
    if form is ReportForm.MARKDOWN:
        return "\n".join(map(files.render_markdown, reports))
    return "".join(encode_json(report.to_json()) + "\n" for report in reports)


def _copy_differences(settings: Settings, definitions: dict[str, Pipeline], to: Path) -> Output:
    """Copy the Parquet of the newest report of the one pipeline that is named."""
    if len(definitions) != 1:
        msg = f"`--differences`: expected the name of one pipeline, got {len(definitions)}."
        name = min(definitions, default="P")
        raise DefinitionError(msg + f"\nHint: `cutover report {name} --differences {to}`.")
    (name, pipeline), *_ = definitions.items()
    report = _read_newest(PipelineLake(settings, pipeline))
    if report is None:
        _reject_missing(settings, definitions)
    rows = files.copy_table(settings, report, to)
    text = (
        f"{count_noun(rows, 'differing row')} of `{name}` in {to}. DuckDB, pandas and Spark read it (docs/report.md)."
    )
    return Output(document={"pipeline": name, "file": str(to), "rows": rows}, lines=[text])


def _read_newest(lake: PipelineLake) -> Report | None:
    """Return the report of the current comparison of a pipeline; None if there is none."""
    for comparison in history.list_current_first(lake)[:1]:
        return files.read_report(lake.settings, lake.name, comparison.run_id)
    return None


def _list_addresses(settings: Settings, definitions: dict[str, Pipeline], *, list_all: bool) -> Iterator[Output]:
    """Yield the addresses of reports, newest first."""
    paths = []
    for name in sorted(definitions):
        pages = files.list_pages(settings, history.list_current_first(PipelineLake(settings, definitions[name])))
        paths += pages if list_all else pages[:1]
    if not paths:
        _reject_missing(settings, definitions)
    for path in paths:
        address = show.make_address(settings, path.relative_to(settings.reports_dir).as_posix())
        yield Output(document={"report": address}, lines=[address])


def _reject_missing(settings: Settings, definitions: dict[str, Pipeline]) -> NoReturn:
    names = ", ".join(sorted(definitions)) or "no pipeline"
    msg = f"Reports of {names}: expected one in {settings.reports_dir}, found none."
    hint = f"`cutover reconcile {min(definitions)}` makes one" if definitions else "`cutover init` writes a definition"
    raise DefinitionError(msg + f"\nHint: {hint}.")


def _serve(settings: Settings, port: int) -> Iterator[Output]:
    try:
        with open_server(settings.reports_dir, port) as running:
            root = f"http://{HOST}:{running.server_port}"
            pages = sorted(
                page.relative_to(settings.reports_dir).as_posix() for page in settings.reports_dir.glob("*/latest.html")
            )
            addresses = [f"{root}/{page}" for page in pages]
            serving = f"Serving {settings.reports_dir} on {HOST}:{running.server_port}; Ctrl-C ends it."
            yield Output(document={"reports": addresses}, lines=[*addresses, serving])
            running.serve_forever()
    except OSError as error:
        msg = f"`--port`: expected a free port, {port} cannot be had: {error.strerror}."
        raise DefinitionError(msg) from None


COMMANDS = {"report": report}
