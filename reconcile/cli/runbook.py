"""`cutover runbook ALERT`: a page, filled for the incident of a pipeline."""

import json
import sys
from typing import Annotated

import typer

from cutover.runbooks import folder
from cutover.settings import load_settings


def runbook(
    name: Annotated[str | None, typer.Argument(help="Of an alert, or another page; none: all are listed.")] = None,
    *,
    pipeline: Annotated[str | None, typer.Option("--pipeline", "-p", help="Fill the page for this one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Print a runbook; of a pipeline: what fires now, windows, offsets, the last similar incident, its own commands."""
    if name is None:
        _list(as_json=as_json)
        return
    page = folder.read_page(name)
    text = folder.read_text(name) or ""
    if pipeline is None:
        fields: dict[str, object] = {"name": page.name, "text": text}
        sys.stdout.write(json.dumps(fields) + "\n" if as_json else text)
        return
    _print_filled(name, text, pipeline, as_json=as_json)


def _print_filled(name: str, text: str, pipeline: str, *, as_json: bool) -> None:
    from dataclasses import asdict

    from cutover.cli.definitions import find_definition
    from cutover.clock import SystemClock
    from cutover.reconcile.incident.page import fill_page
    from cutover.reconcile.watch.collector import FactCollector
    from cutover.reconcile.watch.status import make_status

    settings = load_settings()
    definition = find_definition(settings, pipeline, running=True)
    now = make_status(FactCollector(settings, definition, SystemClock()).collect())
    filled = fill_page(settings, definition, name, text, now)
    sys.stdout.write(json.dumps(asdict(filled)) + "\n" if as_json else filled.to_text())


def _list(*, as_json: bool) -> None:
    for name in folder.list_names():
        head = folder.read_page(name).head
        row = {"name": name, "severity": head.severity, "owner": head.owner, "alert": head.alert, "drill": head.drill}
        sys.stdout.write(json.dumps(row) + "\n" if as_json else f"{name:24} {head.severity:7} {head.owner}\n")


COMMANDS = {"runbook": runbook}
