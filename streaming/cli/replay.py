"""`cutover replay` and `cutover serve`: fill a version beside the one that serves, compare both, let it serve."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.errors import DefinitionError
from cutover.lake.control import versions
from cutover.output.markup import literal_text
from cutover.probe import Point, Probe
from cutover.settings import Settings, load_settings
from cutover.streaming import compare as comparing
from cutover.streaming import replay as replaying
from cutover.streaming import serve as serving
from cutover.streaming.compare import VersionComparison
from cutover.streaming.process import heartbeat
from cutover.streaming.serve import Agreed

LINE_EVERY = 10.0  # seconds, where there is no terminal
Name = Annotated[str, typer.Argument(help="Name of a pipeline.")]


def replay(
    pipeline: Name,
    *,
    into: Annotated[
        int | None, typer.Option("--into", min=0, help="The next version, or a replay that is to go on.")
    ] = None,
    epoch: Annotated[
        int | None, typer.Option("--from", min=0, help="Begin behind this epoch of the version that serves.")
    ] = None,
    compare: Annotated[
        int | None, typer.Option("--compare", min=0, help="A version to compare with the one that serves.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, of a comparison.")] = False,
) -> None:
    """Read the log into a new version at full speed, beside the one that serves, or `--compare` it with that one.

    A comparison is made at the newest cut that both have: 0 they add up to the same, 1 they do not, 2 not comparable.
    """
    settings = load_settings()
    found = catalogue.get(settings, pipeline)
    if (into is None) == (compare is None):
        msg = "Replay: expected either `--into` or `--compare`, got " + ("none." if into is None else "both.")
        raise DefinitionError(msg + f"\nHint: `cutover savepoint {pipeline} list` shows the versions.")
    if compare is not None:
        _show(comparing.compare(settings, found, compare), as_json=as_json)
        return
    version = _fill(settings, pipeline, int(into or 0), epoch)
    last = heartbeat.read(versions.looking_at(settings, version), pipeline)
    reached = "no epoch" if last is None or last.epoch is None else f"epoch {last.epoch}, watermark {last.watermark}"
    typer.echo(f"{pipeline}: stream-{version} has read the log up to now ({reached}); it serves nothing yet.")
    typer.echo(f"Compare: `cutover replay {pipeline} --compare {version}` with the one that serves, and with batch:")
    typer.echo(f"`cutover batch {pipeline} --version {version}`, `cutover reconcile {pipeline} --version {version}`")
    typer.echo(f'Let it serve: `cutover serve {pipeline} --version {version} --why "..."`')


def _fill(settings: Settings, pipeline: str, into: int, epoch: int | None) -> int:
    chosen, found = versions.looking_at(settings, into), catalogue.get(settings, pipeline)
    with _show_progress(chosen, pipeline) as probe:
        return replaying.replay(settings, found, into, SystemClock(), epoch=epoch, probe=probe).number


@contextmanager
def _show_progress(settings: Settings, pipeline: str) -> Iterator[Probe]:
    """Show how much of the log is read, and how long the rest will take, by what the driver says of itself."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,} of {task.total:,}"),
    )
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True) as shown:
        task = shown.add_task(pipeline, total=0)
        begun, most, told = time.monotonic(), 0, 0.0

        def probe(point: Point, epoch: int) -> None:  # noqa: ARG001 -- every probe's signature
            nonlocal most, told
            said = heartbeat.read(settings, pipeline) if point == "epoch.committed" else None
            if said is None or said.lag is None:
                return
            most, now = max(most, said.lag), time.monotonic()
            shown.update(task, total=most, completed=most - said.lag)
            if not console.is_terminal and now >= told + LINE_EVERY and said.lag < most:
                told, left = now, (now - begun) * said.lag / (most - said.lag)
                console.print(f"{pipeline}: {most - said.lag:,} of {most:,} records read, about {left:.0f} s left")

        yield probe


def _show(found: VersionComparison, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(asdict(found) | {"exit_code": found.exit_code}))
        raise typer.Exit(found.exit_code)
    console = Console(highlight=False, soft_wrap=True)
    for line in found.examples:
        console.print(literal_text(line))
    what = f"stream-{found.beside} beside stream-{found.serving} of {found.pipeline}"
    epochs, late = f"epochs {found.epochs[1]} and {found.epochs[0]}", f"late {found.late[1]:,} and {found.late[0]:,}"
    console.print(f"{what}, {epochs}: {late}.")
    if found.exit_code:
        counts = ", ".join(f"{count:,} {kind}" for kind, count in found.counts.items())
        again = f"`cutover reconcile {found.pipeline} --version N` for both"
        differ = sum(found.counts.values())
        agree = f"`cutover serve {found.pipeline} --version {found.beside} --differences {differ} --why ...`"
        console.print(f"Of {found.rows:,} rows {counts}. Next: {again}; if they are as they should be, {agree}.")
    else:
        again = f'`cutover serve {found.pipeline} --version {found.beside} --why "..."`'
        console.print(f"All {found.rows:,} rows add up to the same, late records among them. Next: {again}.")
    raise typer.Exit(found.exit_code)


def serve(
    pipeline: Name,
    *,
    version: Annotated[int, typer.Option("--version", min=0, help="Which one serves from now on.")],
    why: Annotated[str, typer.Option("--why", help="The reason; it is kept.")],
    differences: Annotated[
        int, typer.Option("--differences", min=0, help="Rows that may differ from what is served now: exactly so many.")
    ] = 0,
    uncompared: Annotated[
        bool, typer.Option("--uncompared", help="Do not compare it first; that is kept with the reason.")
    ] = False,
) -> None:
    """Let another version of the stream serve, in one commit; the one before stays as it is.

    One that never served is compared with the one that does, at the newest cut that both have. If rows differ it serves
    only if you have seen them: `--differences N` says how many. One that has served before serves again at once.
    """
    settings = load_settings()
    found = catalogue.get(settings, pipeline)
    agreed = Agreed(differences=differences, uncompared=uncompared)
    made, compared = serving.serve(settings, found, version, why=why, agreed=agreed, clock=SystemClock())
    if compared is not None:
        differ = sum(compared.counts.values())
        typer.echo(f"{differ:,} of {compared.rows:,} rows differ from stream-{compared.serving}, late ones among them.")
    typer.echo(f"{pipeline}: stream-{made.number} serves; `cutover serve` with the version before goes back.")
    living = heartbeat.read(settings, pipeline)
    if living is not None and living.alive:
        typer.echo(f"The driver at work (pid {living.pid}) still writes the version before.")
        typer.echo(f"`cutover stream {pipeline} --stop` ends it; the next one goes on with stream-{made.number}.")
