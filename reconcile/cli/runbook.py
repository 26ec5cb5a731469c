"""`cutover runbook ALERT`: a page, filled for the incident of a pipeline."""

from collections.abc import Iterator
from typing import Annotated

import typer

from cutover import runbooks
from cutover.output.console import Output, Verbatim
from cutover.pipeline_lake import PipelineLake
from cutover.settings import load_settings


def runbook(
    name: Annotated[str | None, typer.Argument(help="Of an alert, or another page; none: all are listed.")] = None,
    *,
    pipeline: Annotated[str | None, typer.Option("--pipeline", "-p", help="Fill the page for this one.")] = None,
) -> Iterator[Output]:
    """Print a runbook; of a pipeline: what fires now, windows, offsets, the last similar incident, its own commands."""
    if name is None:
        yield from _list_pages()
        return
    page = runbooks.read_page(name)
    text = runbooks.read_text(name) or ""
    if pipeline is None:
        yield Output(document={"name": page.name, "text": text}, lines=[Verbatim(text)])
    else:
        yield _fill_page(name, text, pipeline)


def _fill_page(name: str, text: str, pipeline: str) -> Output:
    from dataclasses import asdict

    from cutover.cli.definitions import load_command_definition
    from cutover.clock import SystemClock
    from cutover.reconcile.incident import fill_page
    from cutover.reconcile.watch.collector import FactCollector
    from cutover.reconcile.watch.status import make_status

    settings = load_settings()
    definition = load_command_definition(settings, pipeline, running=True)
    lake = PipelineLake(settings, definition)
    now = make_status(FactCollector(lake, SystemClock()).collect())
    filled = fill_page(lake, name, text, now)
    return Output(document=asdict(filled), lines=[Verbatim(filled.to_text())])


def _list_pages() -> Iterator[Output]:
    for name in runbooks.list_runbooks():
        head = runbooks.read_page(name).head
        row = {"name": name, "severity": head.severity, "owner": head.owner, "alert": head.alert, "drill": head.drill}
        yield Output(document=row, lines=[f"{name:24} {head.severity:7} {head.owner}"])


COMMANDS = {"runbook": runbook}
