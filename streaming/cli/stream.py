"""`cutover stream`: drive a pipeline's stream here, or in a detached driver."""

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated

import typer

from cutover import events
from cutover.definition.loading import catalogue
from cutover.errors import DefinitionError
from cutover.output.console import Output, show_spinner
from cutover.pipeline_lake import PipelineLake
from cutover.positions import followed_job
from cutover.settings import Settings, load_settings
from cutover.streaming import driver
from cutover.streaming.cli import savepoint
from cutover.streaming.cli.replay import replay, serve
from cutover.streaming.cli.savepoint import accept_loss
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
) -> Output:
    """Read the log into the epoch log: partial aggregates of windows, one commit an epoch."""
    if drain + final + detach + stop > 1:
        msg = "`cutover stream`: expected one of --drain, --final, --detach, --stop at most, got more."
        raise DefinitionError(msg)
    settings = load_settings()
    run_until: driver.Until = "drain" if drain else "final" if final else "forever"
    return _drive(settings, pipeline, run_until, detach=detach, stop=stop)


def follow(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline with `stream=SparkStream(...)`.")],
    *,
    drain: Annotated[
        bool, typer.Option("--drain", help="Stop at the newest batch that the job has committed.")
    ] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Start a detached driver, or find the running one.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="Stop the running driver after its current epoch.")] = False,
) -> Output:
    """Follow a Spark streaming job of your own: archive its batches, and repeat each of them as an epoch."""
    if drain + detach + stop > 1:
        msg = "`cutover follow`: expected one of --drain, --detach, --stop at most, got more."
        raise DefinitionError(msg)
    settings = load_settings()
    if not stop:
        followed_job.get_stream(PipelineLake(settings, catalogue.get(settings, pipeline)))
    return _drive(settings, pipeline, "drain" if drain else "forever", detach=detach, stop=stop)


def _drive(settings: Settings, pipeline: str, run_until: driver.Until, *, detach: bool, stop: bool) -> Output:
    code = 0
    if stop:
        last_heartbeat = detached.stop_driver(settings, pipeline)
        if last_heartbeat is None:
            catalogue.get(settings, pipeline)  # rejects the name of no pipeline
    elif detach:
        last_heartbeat = detached.ensure_driver(settings, pipeline)
    else:
        code = _run_here(PipelineLake(settings, catalogue.get(settings, pipeline)), run_until)
        last_heartbeat = heartbeat.find_heartbeat(settings, pipeline)
    stopped_early = f"{pipeline}: stopped before the cut was reached; the same command continues from there."
    return Output(
        document={} if last_heartbeat is None else asdict(last_heartbeat),
        lines=[_describe_heartbeat(pipeline, last_heartbeat)],
        warnings=[stopped_early] if code != 0 else [],
        exit_code=code,
    )


def _run_here(lake: PipelineLake, run_until: driver.Until) -> int:
    if not sys.stderr.isatty():
        return driver.run_driver(lake, until=run_until)
    events.configure(pretty=True, level=logging.WARNING)
    with _progress(lake.settings, lake.name):
        return driver.run_driver(lake, until=run_until)


@contextmanager
def _progress(settings: Settings, name: str) -> Iterator[None]:
    """Show epoch, watermark and what is unread while the block runs."""
    event = threading.Event()
    with show_spinner(f"{name}: starting") as update:

        def follow() -> None:
            while not event.wait(_REFRESH_SECONDS):
                update(_sentence(name, heartbeat.find_heartbeat(settings, name)))

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


def _describe_heartbeat(name: str, heartbeat: Heartbeat | None) -> str:
    return (
        f"{name}: no driver has run yet."
        if heartbeat is None
        else f"{_sentence(name, heartbeat)} (pid {heartbeat.pid})"
    )


COMMANDS = {
    "stream": stream,
    "follow": follow,
    "accept-loss": accept_loss,
    "savepoint": savepoint.app,
    "replay": replay,
    "serve": serve,
}
