"""`cutover stream`: drive a pipeline's stream here, or in a detached driver, and continue it from an epoch.

`cutover savepoint P create|list|release|fork` keeps an epoch under a name, where the stream can be forked.
`accept-loss` shows what a stream has lost, and records it so that the stream can continue.
"""

import logging
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer

from cutover import events
from cutover.cli.definitions import choose_pipeline, load_chosen_definition
from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.window_fn import WindowFn, select_last_window
from cutover.errors import DefinitionError
from cutover.lake.control import pins, versions
from cutover.lake.control.pins import Savepoint
from cutover.lake.control.versions import Version
from cutover.lake.journal_rows import Loss
from cutover.log.topic_partitions import format_partition_number
from cutover.output.console import Line, Output, make_table, show_spinner
from cutover.pipeline_lake import PipelineLake
from cutover.positions import followed_job
from cutover.records.parsing import limits
from cutover.settings import Settings, load_settings
from cutover.streaming import driver
from cutover.streaming.process import heartbeat
from cutover.streaming.process.heartbeat import Heartbeat
from cutover.streaming.recovery import accept_loss as accept
from cutover.streaming.recovery import fork
from cutover.streaming.recovery.accept_loss import LossAcceptance
from cutover.timestamps import format_micros

Name = Annotated[str, typer.Argument(help="Of the savepoint.")]

app = typer.Typer(help="Keep an epoch of a stream under a name, and fork the stream there.", no_args_is_help=True)
app.callback()(choose_pipeline)


@app.command()
def create(
    context: typer.Context,
    name: Name,
    *,
    epoch: Annotated[int | None, typer.Option("--epoch", help="Which one; the newest if not given.")] = None,
) -> Output:
    """Keep an epoch, by default the newest; the driver keeps running."""
    settings, pipeline = load_chosen_definition(context)
    savepoint = fork.savepoint(PipelineLake(settings, pipeline), name, epoch, SystemClock())
    text = f"{pipeline.name}: `{savepoint.name}` keeps epoch {savepoint.epoch} of stream-{savepoint.version}."
    return Output(document=_object(savepoint), lines=[text])


@app.command("list")
def show_savepoints(context: typer.Context) -> Output:
    """List versions and savepoints."""
    settings, pipeline = load_chosen_definition(context)
    all_versions = versions.list_stream_versions(PipelineLake(settings, pipeline))
    all_savepoints = [savepoint for version in all_versions for savepoint in pins.list_savepoints(settings, version)]
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
    settings, pipeline = load_chosen_definition(context)
    lake = PipelineLake(settings, pipeline)
    all_versions = versions.list_stream_versions(lake)  # also of a version that another one replaced
    savepoint = _find_savepoint(lake, name, candidates=all_versions)
    version = next(candidate for candidate in all_versions if candidate.number == savepoint.version)
    pins.release_savepoint(settings, version, savepoint, now=SystemClock().now())
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
    lake = PipelineLake(settings, pipeline)
    current = versions.find_current_version(lake)
    candidates = [] if current is None else [current]
    target_epoch = _find_savepoint(lake, str(name), candidates=candidates).epoch if epoch is None else epoch
    version = fork.fork(lake, target_epoch, SystemClock())
    return Output(
        document={"version": version.number, "fork": None if version.fork is None else asdict(version.fork)},
        lines=[
            f"{pipeline.name}: stream-{version.number} {_begins(version)}.",
            f"`cutover stream {pipeline.name}` continues there; the previous version is kept unchanged.",
        ],
    )


def _find_savepoint(lake: PipelineLake, name: str, *, candidates: Sequence[Version]) -> Savepoint:
    """Return a savepoint of some versions by name, that of the last of them first."""
    all_savepoints = [
        savepoint for version in reversed(candidates) for savepoint in pins.list_savepoints(lake.settings, version)
    ]
    match = next((savepoint for savepoint in all_savepoints if savepoint.name == name), None)
    if match is not None:
        return match
    of = " and ".join(f"stream-{version.number}" for version in candidates) or "no version"
    existing = ", ".join(savepoint.name for savepoint in all_savepoints) or "none"
    msg = f"Savepoint of `{lake.name}`: expected one of {of} ({existing}), got `{name[:80]}`."
    raise DefinitionError(msg)


def _begins(version: Version) -> str:
    if version.fork is None:
        return "begins where the log does"
    return f"begins after epoch {version.fork.epoch} of stream-{version.fork.version}"


def _object(savepoint: Savepoint) -> dict[str, Any]:
    return asdict(savepoint) | {"at": savepoint.at.isoformat()}


def accept_loss(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    reason: Annotated[
        str | None, typer.Option("--why", help="The reason, which is recorded. Without it nothing is recorded.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be recorded.")] = False,
) -> Output:
    """Record what a stream's log or table has lost, and which windows are touched, so that the stream can continue."""
    settings, clock = load_settings(), SystemClock()
    definition = catalogue.get(settings, pipeline)
    is_dry = dry_run or reason is None
    lake = PipelineLake(settings, definition)
    step = accept.preview_losses(lake, clock) if is_dry else accept.record_losses(lake, reason or "", clock)
    return Output(
        document=_loss_object(step, is_recorded=not is_dry), lines=_list_lines(step, definition, is_recorded=not is_dry)
    )


def _loss_object(step: LossAcceptance, *, is_recorded: bool) -> dict[str, Any]:
    rows = [
        asdict(loss)
        | {name: format_micros(getattr(loss, name)) for name in ("windows_from", "windows_to")}
        | {"at": loss.at.isoformat()}
        for loss in step.losses
    ]
    return {
        "pipeline": step.pipeline,
        "recorded": is_recorded,
        "trouble": step.trouble,
        "runbook": step.runbook,
        "kind": step.kind,
        "stream_version": step.version,
        "losses": rows,
    }


def _list_lines(step: LossAcceptance, pipeline: Pipeline, *, is_recorded: bool) -> Iterator[Line]:
    yield from step.trouble.split("\n")
    yield _describe_next_epoch(step)
    yield make_table(
        ("partition", "lost offsets", "of topic id", "windows that read incomplete(lost)"),
        (
            (format_partition_number(loss.partition), _offsets(loss), loss.topic_id, _windows(loss, pipeline))
            for loss in step.losses
        ),
    )
    if is_recorded:
        yield f"Recorded. `cutover stream {step.pipeline}` continues."
    else:
        yield f'Nothing was recorded. `cutover accept-loss {step.pipeline} --why "..."` records it.'


def _describe_next_epoch(step: LossAcceptance) -> str:
    if step.kind == "gap":
        return f"stream-{step.version} continues at epoch {step.losses[0].epoch}, after the lost offsets."
    if step.kind == "inside":
        return f"stream-{step.version} continues at epoch {step.losses[0].epoch}, and reads the records that remain."
    log = step.losses[0].onward_topic_id
    return f"stream-{step.version} is a new version and reads topic id {log} from its beginning; the old one is kept."


def _offsets(loss: Loss) -> str:
    if loss.next is None:
        return f"{loss.first} and all after it"
    return f"{loss.first} to {loss.next - 1} ({loss.next - loss.first:,})" if loss.next > loss.first else "none"


def _windows(loss: Loss, pipeline: Pipeline) -> str:
    if loss.windows is None:
        return "none"
    start, end = loss.windows
    if pipeline.window.merges:
        begin = "anything" if start == limits.MIN_MICROS else format_micros(start)
        return f"all that touch {begin} to {format_micros(end - 1)}"
    micros = format_micros(select_last_window(pipeline.window, end - 1).start)
    if start == limits.MIN_MICROS:
        return f"all up to the one that starts at {micros}"
    return f"{format_micros(start)} to {micros} ({_count(pipeline.window, start, end):,}), by start"


def _count(window: WindowFn, start: int, end: int) -> int:
    """Return how many windows begin in `[first, end)`; one begins at `start`."""
    window_count = 0
    while start < end:
        start, window_count = window.end_of_starts(start), window_count + 1
    return window_count


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
        last_heartbeat = heartbeat.stop_driver(settings, pipeline)
        if last_heartbeat is None:
            catalogue.get(settings, pipeline)  # rejects the name of no pipeline
    elif detach:
        last_heartbeat = heartbeat.ensure_driver(settings, pipeline)
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
    "savepoint": app,
}
