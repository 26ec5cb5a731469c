"""`cutover savepoint P create|list|release|fork`: keep an epoch under a name, and fork the stream there."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from cutover.cli.definitions import find_definition
from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError
from cutover.lake.control import savepoints, versions
from cutover.lake.control.savepoints import Savepoint
from cutover.lake.control.versions import Version
from cutover.output.console import Output, make_table
from cutover.settings import Settings, load_settings
from cutover.streaming.recovery import fork

Name = Annotated[str, typer.Argument(help="Of the savepoint.")]

app = typer.Typer(help="Keep an epoch of a stream under a name, and fork the stream there.", no_args_is_help=True)


@app.callback()
def choose_pipeline(
    context: typer.Context, pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")]
) -> None:
    """Keep an epoch of a stream under a name, and fork the stream there, as a new version."""
    context.obj = (load_settings(), pipeline)


@app.command()
def create(
    context: typer.Context,
    name: Name,
    *,
    epoch: Annotated[int | None, typer.Option("--epoch", help="Which one; the newest if not given.")] = None,
) -> Output:
    """Keep an epoch, by default the newest; the driver keeps running."""
    settings, pipeline = _find_shown(context)
    savepoint = fork.savepoint(settings, pipeline, name, epoch, SystemClock())
    text = f"{pipeline.name}: `{savepoint.name}` keeps epoch {savepoint.epoch} of stream-{savepoint.version}."
    return Output(document=_object(savepoint), lines=[text])


@app.command("list")
def show(context: typer.Context) -> Output:
    """List versions and savepoints."""
    settings, pipeline = _find_shown(context)
    all_versions = versions.list_versions(settings, pipeline)
    all_savepoints = [
        savepoint for version in all_versions for savepoint in savepoints.list_savepoints(settings, version)
    ]
    rows = [
        {"version": version.number, "fork": None if version.fork is None else asdict(version.fork)}
        for version in all_versions
    ]
    versions_table = make_table(
        ("version", "begins"), ((f"stream-{version.number}", _begins(version)) for version in all_versions)
    )
    savepoints_table = make_table(
        ("savepoint", "version", "epoch", "kept since"),
        (
            (each.name, f"stream-{each.version}", each.epoch, each.at.isoformat(timespec="seconds"))
            for each in all_savepoints
        ),
    )
    return Output(
        document={"versions": rows, "savepoints": [_object(savepoint) for savepoint in all_savepoints]},
        lines=[versions_table, savepoints_table if all_savepoints else "No savepoint is kept."],
    )


@app.command()
def release(context: typer.Context, name: Name) -> Output:
    """Release a savepoint: later folds may merge its epoch."""
    settings, pipeline = _find_shown(context)
    all_versions = versions.list_versions(settings, pipeline)  # also of a version that another one replaced
    savepoint = _find_savepoint(settings, pipeline, name, candidates=all_versions)
    version = next(candidate for candidate in all_versions if candidate.number == savepoint.version)
    savepoints.release(settings, version, savepoint, now=SystemClock().now())
    text = f"{pipeline.name}: `{name}` keeps epoch {savepoint.epoch} of stream-{savepoint.version} no longer."
    return Output(document=_object(savepoint), lines=[text])


@app.command("fork")
def fork_version(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Of a savepoint of the current version.")] = None,
    *,
    epoch: Annotated[int | None, typer.Option("--epoch", help="Any epoch newer than the last fold.")] = None,
) -> Output:
    """Begin a new version after a savepoint or an epoch; the driver must be stopped."""
    settings = context.obj[0]
    pipeline = catalogue.get(settings, context.obj[1])
    if (name is None) == (epoch is None):
        msg = "`cutover savepoint fork`: expected a savepoint's name or --epoch, got "
        raise DefinitionError(msg + ("none of them." if name is None else "both."))
    current = versions.current(settings, pipeline)
    candidates = [] if current is None else [current]
    target_epoch = (
        _find_savepoint(settings, pipeline, str(name), candidates=candidates).epoch if epoch is None else epoch
    )
    version = fork.fork(settings, pipeline, target_epoch, SystemClock())
    return Output(
        document={"version": version.number, "fork": None if version.fork is None else asdict(version.fork)},
        lines=[
            f"{pipeline.name}: stream-{version.number} {_begins(version)}.",
            f"`cutover stream {pipeline.name}` continues there; the previous version is kept unchanged.",
        ],
    )


def _find_savepoint(settings: Settings, pipeline: Pipeline, name: str, *, candidates: Sequence[Version]) -> Savepoint:
    """Return a savepoint of some versions by name, that of the last of them first."""
    all_savepoints = [
        savepoint for version in reversed(candidates) for savepoint in savepoints.list_savepoints(settings, version)
    ]
    match = next((savepoint for savepoint in all_savepoints if savepoint.name == name), None)
    if match is not None:
        return match
    of = " and ".join(f"stream-{version.number}" for version in candidates) or "no version"
    existing = ", ".join(savepoint.name for savepoint in all_savepoints) or "none"
    msg = f"Savepoint of `{pipeline.name}`: expected one of {of} ({existing}), got `{name[:80]}`."
    raise DefinitionError(msg)


def _begins(version: Version) -> str:
    if version.fork is None:
        return "begins where the log does"
    return f"begins after epoch {version.fork.epoch} of stream-{version.fork.version}"


def _object(savepoint: Savepoint) -> dict[str, Any]:
    return asdict(savepoint) | {"at": savepoint.at.isoformat()}


def _find_shown(context: typer.Context) -> tuple[Settings, Pipeline]:
    settings, name = context.obj
    return settings, find_definition(settings, name)
