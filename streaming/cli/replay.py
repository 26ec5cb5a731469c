"""`cutover replay` and `cutover serve`: fill a version beside the one that serves, then let it serve."""

from typing import Annotated

import typer

from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.lake.control import versions
from cutover.lake.serving import serving_table
from cutover.settings import load_settings
from cutover.streaming import replay as replaying
from cutover.streaming.process import heartbeat

Name = Annotated[str, typer.Argument(help="Name of a pipeline.")]


def replay(
    pipeline: Name,
    *,
    into: Annotated[int, typer.Option("--into", min=0, help="The next version, or a replay that is to go on.")],
    epoch: Annotated[
        int | None, typer.Option("--from", min=0, help="Begin behind this epoch of the version that serves.")
    ] = None,
) -> None:
    """Read the log into a new version at full speed, beside the one that serves; both can be compared with batch."""
    settings = load_settings()
    found = catalogue.get(settings, pipeline)
    version = replaying.replay(settings, found, into, SystemClock(), epoch=epoch)
    last = heartbeat.read(versions.looking_at(settings, into), pipeline)
    reached = "no epoch" if last is None or last.epoch is None else f"epoch {last.epoch}, watermark {last.watermark}"
    typer.echo(f"{pipeline}: stream-{version.number} has read the log up to now ({reached}); it serves nothing yet.")
    typer.echo(f"Compare: `cutover batch {pipeline} --version {into}`, `cutover reconcile {pipeline} --version {into}`")
    typer.echo(f'Let it serve: `cutover serve {pipeline} --version {into} --why "..."`')


def serve(
    pipeline: Name,
    *,
    version: Annotated[int, typer.Option("--version", min=0, help="Which one serves from now on.")],
    why: Annotated[str, typer.Option("--why", help="The reason; it is kept.")],
) -> None:
    """Let another version of the stream serve, at once and in one commit; the one before stays as it is."""
    settings = load_settings()
    found = catalogue.get(settings, pipeline)
    made = versions.serve(settings, found, version, why=why, clock=SystemClock())
    serving_table.keep_up(settings, found)
    typer.echo(f"{pipeline}: stream-{made.number} serves; `cutover serve` with the version before goes back.")
    living = heartbeat.read(settings, pipeline)
    if living is not None and living.alive:
        typer.echo(f"The driver at work (pid {living.pid}) still writes the version before.")
        typer.echo(f"`cutover stream {pipeline} --stop` ends it; the next one goes on with stream-{made.number}.")
