"""`cutover replay` and `cutover serve`: fill another stream, compare it with the serving one, switch to it."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from cutover.cli.definitions import find_definition
from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError
from cutover.lake.control import versions
from cutover.output.markup import literal_text
from cutover.probe import Point, Probe
from cutover.settings import Settings, load_settings
from cutover.streaming.process import heartbeat
from cutover.streaming.replacement import compare as comparing
from cutover.streaming.replacement import replay as replaying
from cutover.streaming.replacement import serve as serving
from cutover.streaming.replacement.compare import StreamComparison
from cutover.streaming.replacement.serve import Agreed

LINE_EVERY = 10.0  # seconds, where there is no terminal
Name = Annotated[str, typer.Argument(help="Name of a pipeline.")]


def replay(
    pipeline: Name,
    *,
    into: Annotated[
        int | None, typer.Option("--into", min=0, help="The next version, or a replay to continue.")
    ] = None,
    epoch: Annotated[
        int | None, typer.Option("--from", min=0, help="Begin after this epoch of the serving version.")
    ] = None,
    compare: Annotated[
        int | None, typer.Option("--compare", min=0, help="A version to compare with the one that serves.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, of a comparison.")] = False,
) -> None:
    """Read the log into a new version at full speed, or `--compare` that version with the serving one.

    Without an option: into a changed definition, up to an epoch of the one that its `change` names (`cutover swap`).
    The comparison uses the newest common cut: 0 they add up to the same, 1 they differ, 2 not comparable.
    """
    settings = load_settings()
    definition = catalogue.get(settings, pipeline)
    if into is not None and compare is not None:
        msg = "Replay: expected either `--into` or `--compare`, got both."
        raise DefinitionError(msg + f"\nHint: `cutover savepoint {pipeline} list` shows the versions.")
    if compare is not None:
        serve = f"cutover serve {pipeline} --version {compare}"
        show(comparing.compare_versions(settings, definition, compare), serve, as_json=as_json)
    elif into is not None:
        _fill_version(settings, definition, into, epoch)
    else:
        _fill_definition(settings, definition)


def _fill_version(settings: Settings, pipeline: Pipeline, into: int, epoch: int | None) -> None:
    name, version_settings = pipeline.name, versions.looking_at(settings, into)
    with _show_progress(version_settings, name) as probe:
        replayed, has_met = replaying.replay(settings, pipeline, into, SystemClock(), epoch=epoch, probe=probe)
    version = replayed.number
    place = _describe_place(version_settings, name)
    typer.echo(f"{name}: stream-{version} has read the log up to {place}; it serves nothing yet.")
    if not has_met:
        repeat_command = f"`cutover replay {name} --into {version}`"
        typer.echo(
            f"The driver of the version that serves has read less: {repeat_command} continues once it has caught up."
        )
        return
    typer.echo(f"Compare: `cutover replay {name} --compare {version}` with the one that serves, and with batch:")
    typer.echo(f"`cutover batch {name} --version {version}`, `cutover reconcile {name} --version {version}`")
    typer.echo(f'Switch to it: `cutover serve {name} --version {version} --why "..."`')


def _fill_definition(settings: Settings, pipeline: Pipeline) -> None:
    if pipeline.change is None:
        msg = (
            f"Replay of `{pipeline.name}`: expected `--into` or `--compare`, or a definition with a `change`, got none."
        )
        raise DefinitionError(msg + f"\nHint: `cutover savepoint {pipeline.name} list` shows the versions.")
    old = catalogue.get(settings, pipeline.change.of)
    with _show_progress(settings, pipeline.name) as probe:
        replaying.replay_definition(settings, pipeline, old, SystemClock(), probe=probe)
    place = _describe_place(settings, pipeline.name)
    typer.echo(
        f"{pipeline.name}: has read the log up to an epoch of {old.name} ({place}); {old.name} is served as before."
    )
    typer.echo(f"Compare: `cutover swap {pipeline.name}`; continue: `cutover stream {pipeline.name} --detach`.")


def _describe_place(settings: Settings, name: str) -> str:
    last_heartbeat = heartbeat.read(settings, name)
    return (
        "no epoch"
        if last_heartbeat is None or last_heartbeat.epoch is None
        else f"epoch {last_heartbeat.epoch}, watermark {last_heartbeat.watermark}"
    )


@contextmanager
def _show_progress(settings: Settings, pipeline: str) -> Iterator[Probe]:
    """Show how much of the log is read, and how long the rest will take, by what the driver says of itself."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,} of {task.total:,}"),
    )
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True) as progress:
        task = progress.add_task(pipeline, total=0)
        started, largest_lag, reported_at = time.monotonic(), 0, 0.0

        def probe(point: Point, epoch: int) -> None:  # noqa: ARG001 -- every probe's signature
            nonlocal largest_lag, reported_at
            beat = heartbeat.read(settings, pipeline) if point == "epoch.committed" else None
            if beat is None or beat.lag is None:
                return
            largest_lag, now = max(largest_lag, beat.lag), time.monotonic()
            progress.update(task, total=largest_lag, completed=largest_lag - beat.lag)
            if not console.is_terminal and now >= reported_at + LINE_EVERY and beat.lag < largest_lag:
                reported_at, remaining_seconds = now, (now - started) * beat.lag / (largest_lag - beat.lag)
                offsets = f"{largest_lag - beat.lag:,} of {largest_lag:,} offsets read"
                console.print(f"{pipeline}: {offsets}, about {remaining_seconds:.0f} s left")

        yield probe


def show(comparison: StreamComparison, agree: str, *, as_json: bool) -> None:
    """Print a comparison and end with its exit code.

    Args:
        comparison: The comparison.
        agree: The command that lets the stream serve, without its options.
        as_json: One JSON object.
    """
    if as_json:
        typer.echo(json.dumps(asdict(comparison) | {"exit_code": comparison.exit_code}))
        raise typer.Exit(comparison.exit_code)
    console = Console(highlight=False, soft_wrap=True)
    for line in [*comparison.examples, *_describe(comparison)]:
        console.print(literal_text(line))
    console.print(literal_text(_conclude(comparison, agree)))
    raise typer.Exit(comparison.exit_code)


def _describe(comparison: StreamComparison) -> Iterator[str]:
    """Yield a line for each fact besides the rows that differ."""
    epochs, late = (
        f"epochs {comparison.epochs[1]} and {comparison.epochs[0]}",
        f"late {comparison.late[1]:,} and {comparison.late[0]:,}",
    )
    yield f"{comparison.beside} beside {comparison.serving}, {epochs}: {late}."
    if comparison.beyond:
        yield f"{comparison.beside} has read {comparison.beyond:,} offsets more, which are not compared."
    if comparison.otherwise:
        yield f"{comparison.otherwise:,} rows add up to the same and read otherwise, since other records were late."
    for kind, (count_before, count_after) in comparison.classes.items():
        counts = f"{count_after:,}, and {count_before:,} in {comparison.serving}"
        yield f"Records that are {kind}: {counts}; no change note names that."
    if comparison.declared:
        yield f"As its change note declares: {_describe_counts(comparison.declared)}."


def _conclude(comparison: StreamComparison, agree: str) -> str:
    """Return the last line: the result, and the next step."""
    if comparison.classes:
        return "Next: find out why records are classified differently; intended changes belong in the note (`classes`)."
    if comparison.counts:
        batch = "compare each with batch (`cutover reconcile`)"
        next_command = f'`{agree} --differences {comparison.differing} --why "..."`'
        rows = f"Of {comparison.rows:,} rows {_describe_counts(comparison.counts)}"
        return f"{rows}. Next: {batch}; if they are as they should be, {next_command}."
    equality_text = "differ in nothing else" if comparison.declared else "add up to the same, late records among them"
    return f'All {comparison.rows:,} rows {equality_text}. Next: `{agree} --why "..."`.'


def _describe_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in counts.items())


def report_unpublished(lagging: Sequence[str]) -> None:
    """Name the serving tables that show what they showed before, and the command that says why."""
    for name in lagging:
        typer.echo(
            f"{name}: its serving table is not published yet; `cutover serve-view {name}` says why, and does it."
        )


def serve(
    pipeline: Name,
    *,
    version: Annotated[int, typer.Option("--version", min=0, help="The version that serves from now on.")],
    why: Annotated[str, typer.Option("--why", help="The reason, which is recorded.")],
    differences: Annotated[
        int, typer.Option("--differences", min=0, help="Exact number of rows that may differ from what is served now.")
    ] = 0,
    uncompared: Annotated[
        bool, typer.Option("--uncompared", help="Skip the comparison; this is recorded with the reason.")
    ] = False,
) -> None:
    """Switch to another version of the stream, in one commit; the previous one is kept unchanged.

    One that never served is compared with the one that does, at the newest cut that both have. If rows differ it serves
    only if you have seen them: `--differences N` says how many. One that has served before serves again at once.
    """
    settings = load_settings()
    definition = find_definition(versions.looking_at(settings, version), pipeline)
    agreed = Agreed(differences=differences, uncompared=uncompared)
    served = serving.serve(settings, definition, version, why=why, agreed=agreed, clock=SystemClock())
    version_served = served.version
    if served.found is not None:
        typer.echo(f"{pipeline}: {served.found.found}, late records among them.")
    report_unpublished(served.behind)
    typer.echo(
        f"{pipeline}: stream-{version_served.number} serves; `cutover serve` with the previous version reverts this."
    )
    living = heartbeat.read(settings, pipeline)
    if living is not None and living.alive:
        typer.echo(f"The running driver (pid {living.pid}) still writes the previous version.")
        typer.echo(
            f"`cutover stream {pipeline} --stop` ends it; the next one continues with stream-{version_served.number}."
        )
