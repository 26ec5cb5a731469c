"""`cutover batch`: recompute from the log what is dirty at a cut."""

import json
from collections.abc import Mapping
from typing import Annotated

import typer
from rich.table import Table

from cutover.clock import Point
from cutover.counts import count_noun
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.window_fn import EARLIEST, WindowFn, parse_range_end
from cutover.lake.batch_runs import BatchRun, Range
from cutover.lake.control.versions import select_stream_version
from cutover.log.topic_partitions import format_offsets
from cutover.output.console import Output, make_table, multiline, show_spinner
from cutover.pipeline_lake import PipelineLake
from cutover.records.classes import Class
from cutover.settings import load_settings
from cutover.timestamps import format_moment, from_micros

STEPS: dict[Point, str] = {
    "batch.read": "computing the dirty windows",
    "batch.indexed": "replacing the windows",
    "batch.written": "recording the run",
    "batch.committed": "done",
}
_SHOWN = 5  # ranges
_LEFT_OUT = {
    "expired": "records of these windows have left the log; their rows stay as they were served",
    "lost": "records of these windows were lost; their rows stay as they were served",
    "open": "these windows are not closed at the cut",
    "ahead": "batch has already read beyond this cut; their rows stay as they are",
}


def batch(  # noqa: PLR0913 -- the options of a command line
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    start: Annotated[str | None, typer.Option("--from", help="Date, or time (ISO 8601; UTC if no zone).")] = None,
    end: Annotated[str | None, typer.Option("--to", help="Exclusive; all windows touched, clean ones too.")] = None,
    cut: Annotated[int | None, typer.Option("--cut", help="Epoch to read up to; the newest if not given.")] = None,
    version: Annotated[int | None, typer.Option("--version", help="Of the stream; else the one that serves.")] = None,
    anew: Annotated[
        bool,
        typer.Option("--anew", help="Trust no earlier run: read the whole log again, replace all that it still gives."),
    ] = False,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Publish although your SQL leaves out windows or most rows.")
    ] = False,
) -> Output:
    """Recompute from the log the windows that are dirty at a cut, and publish them in one commit."""
    from cutover.batch.recompute import recompute_windows

    settings = select_stream_version(load_settings(), version)
    definition = catalogue.get(settings, pipeline)
    range_start, range_end = (
        None if text is None else parse_range_end(text, definition.window, of=f"`{option}`")
        for option, text in (("--from", start), ("--to", end))
    )
    with show_spinner(f"{pipeline}: reading the log") as update:
        completed = recompute_windows(
            PipelineLake(settings, definition),
            start=range_start,
            end=range_end,
            epoch=cut,
            anew=anew,
            confirmed=confirm,
            probe=lambda point, _: update(f"{pipeline}: {STEPS.get(point, point)}"),
        )
    if completed is None:
        text = f"{pipeline} is in KAPPA: the stream alone is served, batch does not run."
        return Output(document={"skipped": "KAPPA"}, lines=[text])
    reason = nothing_computed(completed).split("\n") if completed.does_nothing else []
    return Output(document=_to_fields(completed), lines=[summary_table(definition, completed), *reason])


def summary_table(pipeline: Pipeline, run: BatchRun) -> Table:
    """Return what a person wants to know of a run."""
    failed = [result for result in run.contract if not result.success]
    scanned = {name: count for name, count in run.counts.items() if name != Class.DUPLICATE}
    doubled = run.counts.get(Class.DUPLICATE, 0)  # a window that is computed again finds those of earlier runs, too
    offsets = sum(end - start for start, end in run.scanned.values())
    rows = {
        "cut": f"epoch {run.epoch} of stream-{run.stream_version}, offsets {format_offsets(run.cut)}",
        "new records": _describe_scan(scanned, pipeline.window, offsets),
        "classes by window": ", ".join(f"{name} {count:,}" for name, count in scanned.items()) or "none",
        "duplicates": f"{doubled:,} in the windows computed",
        "windows computed": _ranges(run.computed),
        "left out": _left_out(run),
        "left stale": _ranges(run.stale),
        "incomplete": _ranges([(entry.window_start, entry.window_end) for entry in run.incomplete]),
        "contract": f"{len(run.contract) - len(failed)} of {len(run.contract)} expectations hold"
        + "".join(f"; {result.severity}: {result.expectation}, got {result.observed}" for result in failed),
        "batch table": f"version {run.batch_version}",
        "took": f"{run.seconds:.1f} s",
    }
    return make_table((f"Batch of {pipeline.name}", ""), ((name, multiline(value)) for name, value in rows.items()))


def _describe_scan(pairs: Mapping[str, int], window: WindowFn, offsets: int) -> str:
    """Return how many records the scanned offsets held: a record that parsed is a pair in each of its windows.

    Windows that hold a record may differ in number, as those of some sliding windows do: then between which bounds.
    """
    single = sum(pairs.get(name, 0) for name in (Class.MALFORMED, Class.FILTERED))
    windowed = sum(pairs.values()) - single
    few, many = single + -(-windowed // window.max_windows), min(single + windowed // window.min_windows, offsets)
    records = f"{few:,}" if few == many else f"{few:,} to {many:,}"
    return f"{records} in {count_noun(offsets, 'offset')}"


def _left_out(run: BatchRun) -> str:
    """Return which windows of the requested range were not computed, one reason per line."""
    return "\n".join(f"{_ranges(ranges)}: {_LEFT_OUT[reason]}" for reason, ranges in run.left_out.items()) or "none"


def nothing_computed(run: BatchRun) -> str:
    """Return why a run computed no window of the requested range, and what to do."""
    at = "not known yet" if run.watermark is None else _time(run.watermark)
    requested = _ranges([run.wanted] if run.wanted else [])
    return (
        f"Nothing was computed: expected a closed window within {requested} that the log still holds, got none: "
        f"at the cut of epoch {run.epoch} the watermark is {at}, {len(run.incomplete)} stretches are incomplete.\n"
        "Hint: a window closes once the watermark is past its end by the allowed lateness; wait, or name another range."
    )


def _to_fields(run: BatchRun) -> dict[str, object]:
    """Return the recorded run, and as `nothing_computed` the reason, if no window of its range was computed."""
    reason = {"nothing_computed": nothing_computed(run)} if run.does_nothing else {}
    fields: dict[str, object] = json.loads(run.to_json())
    return fields | reason


def _ranges(ranges: tuple[Range, ...] | list[Range]) -> str:
    range_texts = [f"{_start(start)} to {_time(end)}" for start, end in ranges[:_SHOWN]]
    more = [f"and {count_noun(len(ranges) - _SHOWN, 'more range')}"] if len(ranges) > _SHOWN else []
    return "\n".join([*range_texts, *more]) or "none"


def _start(micros: int) -> str:
    return "the beginning" if micros <= EARLIEST else _time(micros)


def _time(micros: int) -> str:
    return format_moment(from_micros(micros))


COMMANDS = {"batch": batch}
