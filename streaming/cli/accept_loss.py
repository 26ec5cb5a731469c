"""`cutover accept-loss`: show what a stream has lost, and record it so that the stream can continue."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer

from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.window_fn import WindowFn, select_last_window
from cutover.lake.journal_rows import Loss
from cutover.log.topic_partitions import format_number
from cutover.output.console import Line, Output, make_table
from cutover.records.parsing import limits
from cutover.settings import load_settings
from cutover.streaming.recovery import accept_loss as accept
from cutover.streaming.recovery.accept_loss import LossAcceptance
from cutover.timestamps import format_micros


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
    step = (
        accept.preview_losses(settings, definition, clock)
        if is_dry
        else accept.record_losses(settings, definition, reason or "", clock)
    )
    return Output(
        document=_object(step, is_recorded=not is_dry), lines=_list_lines(step, definition, is_recorded=not is_dry)
    )


def _object(step: LossAcceptance, *, is_recorded: bool) -> dict[str, Any]:
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
            (format_number(loss.partition), _offsets(loss), loss.topic_id, _windows(loss, pipeline))
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
