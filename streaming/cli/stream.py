"""`cutover stream`: drive a pipeline's stream here, or in a detached driver."""

import json
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from cutover import events
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError
from cutover.settings import Settings, load_settings
from cutover.streaming import driver
from cutover.streaming.cli import savepoint
from cutover.streaming.cli.accept_loss import accept_loss
from cutover.streaming.cli.replay import replay, serve
from cutover.streaming.process import detached, heartbeat
from cutover.streaming.process.heartbeat import Heartbeat

_REFRESH_SECONDS = 0.25


def stream(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    drain: Annotated[bool, typer.Option("--drain", help="Stop at the current ends of the log.")] = False,
    final: Annotated[
        bool, typer.Option("--final", help="Drain, close all windows seen so far, seal the version.")
    ] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Start a detached driver, or find the running one.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="Stop the running driver after its current epoch.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the last heartbeat as one JSON object.")] = False,
) -> None:
    """Read the log into the epoch log: partial aggregates of windows, one commit an epoch."""
    if drain + final + detach + stop > 1:
        msg = "`cutover stream`: expected one of --drain, --final, --detach, --stop at most, got more."
        raise DefinitionError(msg)
    settings = load_settings()
    run_until: driver.Until = "drain" if drain else "final" if final else "forever"
    code = 0
    if stop:
        last_heartbeat = detached.stop(settings, pipeline)
        if last_heartbeat is None:
            catalogue.get(settings, pipeline)  # rejects the name of no pipeline
    elif detach:
        last_heartbeat = detached.ensure(settings, pipeline)
    else:
        code = _run_here(settings, catalogue.get(settings, pipeline), run_until)
        last_heartbeat = heartbeat.read(settings, pipeline)
    _print_heartbeat(last_heartbeat, pipeline, as_json=as_json)
    if code != 0:
        sys.stderr.write(f"{pipeline}: stopped before the cut was reached; the same command continues from there.\n")
        raise typer.Exit(code)


def _run_here(settings: Settings, pipeline: Pipeline, run_until: driver.Until) -> int:
    if not sys.stderr.isatty():
        return driver.run(settings, pipeline, until=run_until)
    events.configure(pretty=True, level=logging.WARNING)
    with _progress(settings, pipeline.name):
        return driver.run(settings, pipeline, until=run_until)


@contextmanager
def _progress(settings: Settings, name: str) -> Iterator[None]:
    """Show epoch, watermark and what is unread while the block runs."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    event = threading.Event()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"{name}: starting")

        def follow() -> None:
            while not event.wait(_REFRESH_SECONDS):
                progress.update(task, description=_sentence(name, heartbeat.read(settings, name)))

        thread = threading.Thread(target=follow, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            event.set()
            thread.join()


def _sentence(name: str, beat: Heartbeat | None) -> str:
    if beat is None or beat.epoch is None:
        return f"{name}: starting"
    unread = "" if beat.lag is None else f", {beat.lag:,} unread"
    time = "" if beat.watermark is None else f", watermark {beat.watermark}"
    return f"{name}: {beat.state.lower()}, epoch {beat.epoch}{time}{unread}"


def _print_heartbeat(heartbeat: Heartbeat | None, name: str, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(None if heartbeat is None else asdict(heartbeat)) + "\n")
    elif heartbeat is None:
        sys.stdout.write(f"{name}: no driver has run yet.\n")
    else:
        sys.stdout.write(f"{_sentence(name, heartbeat)} (pid {heartbeat.pid})\n")


COMMANDS = {
    "stream": stream,
    "accept-loss": accept_loss,
    "savepoint": savepoint.app,
    "replay": replay,
    "serve": serve,
}
