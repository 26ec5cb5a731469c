"""Checks of a repair: windows that cannot be computed, before any work, and drafts whose inputs have changed."""

import hashlib
import json
from collections.abc import Callable, Sequence
from datetime import datetime

import pyarrow as pa

from cutover.batch.context import OWN, RunContext
from cutover.batch.plan import holds_a_window
from cutover.batch.read import index
from cutover.batch.repair.draft import RepairDraft
from cutover.batch.windows import find_first_complete_start, find_frozen_before
from cutover.definition.compile.fingerprint import batch_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.window_fn import (
    EARLIEST,
    LATEST,
    AlignedWindowFn,
    Interval,
    WindowFn,
    select_last_window,
)
from cutover.engine import readback
from cutover.errors import DefinitionError, LakeError, LogError
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun, Range
from cutover.lake.control import losses, versions
from cutover.lake.control.losses import is_touched
from cutover.lake.control.served import current_stage
from cutover.log.topic_partitions import format_offsets
from cutover.pipeline_lake import PipelineLake
from cutover.records.parsing import limits
from cutover.records.watermark import find_closed_end
from cutover.timestamps import format_micros

_SHOWN = 5  # windows that a message names


def require_windows(window: WindowFn, starts: Sequence[int], pipeline: str) -> tuple[Range, ...]:
    """Return the windows that start at the given times, ascending, without duplicates.

    Raises:
        DefinitionError: No window of the definition starts at a time, or the windows are sessions.
    """
    windows = set[Interval]()
    for start in starts:
        if not isinstance(window, AlignedWindowFn):
            msg = f"Repair of `{pipeline}`: expected windows at fixed times, got sessions."
            hint = f"\nHint: `cutover batch {pipeline}` computes sessions that changed, with `--anew` all of them."
            raise DefinitionError(msg + hint)
        if not EARLIEST <= start < LATEST:
            msg = f"Window of `{pipeline}`: expected one between the years 1000 and 9000, got {format_micros(start)}."
            raise DefinitionError(msg)
        near = select_last_window(window, start)
        if near.start != start:
            following = format_micros(window.next_start(near.start))
            msg = f"Window of `{pipeline}`: expected the start of one, got {format_micros(start)}."
            raise DefinitionError(msg + f"\nHint: the nearest begin at {format_micros(near.start)} and {following}.")
        windows.add(near)
    return tuple((repaired.start, repaired.end) for repaired in sorted(windows))


def reject_before_scan(work: RunContext, requested: Sequence[Range]) -> None:
    """Reject what the cut, the index and the ends of the log already rule out, before a record is read.

    Args:
        work: The run, before its scan.
        requested: Requested windows; empty: all dirty ones.

    Raises:
        DefinitionError: The cut is an older one, or a window is not closed at it.
        LakeError: No earlier run can be reused, although batch has run.
        LogError: A record of a window has left the log, or was lost.
    """
    name, record = work.pipeline.name, work.target.record
    if work.is_behind:
        msg = f"Repair of `{name}`: expected a cut at or after that of the newest batch run, got epoch {record.epoch}."
        raise DefinitionError(msg + "\nHint: leave out `--cut`, or name a later epoch.")
    if not work.history.runs and batch_runs.read_effective_runs(work.lake):
        msg = f"Repair of `{name}`: expected batch runs of this definition over this log to build on, found none."
        raise LakeError(msg + f"\nHint: `cutover batch {name}` computes all windows first.", runbook="BatchNotFresh")
    closed_end = find_closed_end(work.pipeline, record.watermark_after)
    still_open = [span for span in requested if closed_end is None or span[1] > closed_end]
    if still_open:
        msg = f"Repair of `{name}`: expected windows that are closed at the cut of epoch {record.epoch} (watermark "
        msg += f"{format_micros(record.watermark_after) or 'not known yet'}), got {format_windows(still_open)}."
        raise DefinitionError(msg + "\nHint: a window closes once the watermark is past its end by allowed lateness.")
    _reject_expired(work, requested)


def _reject_expired(work: RunContext, requested: Sequence[Range]) -> None:
    window = work.pipeline.window
    if not requested or not isinstance(window, AlignedWindowFn):
        return
    index.bind_ranges(work.connection, work.lake, work.history)
    expired_windows = index.find_expired_windows(work.connection, work.earliest, work.scan)
    complete_from = find_first_complete_start(work, work.new_offsets, [start for start, _ in requested], window)
    first_complete = max(find_frozen_before(work), limits.MIN_MICROS if complete_from is None else complete_from)
    lost_windows = [span for span in requested if is_touched(span[0], work.lost_windows)]
    if lost_windows:
        msg = f"Repair of `{work.pipeline.name}`: expected windows without lost records, got "
        msg += f"{format_windows(lost_windows)}: an accepted loss affects them."
        raise LogError(
            msg + "\nHint: they can no longer be computed; their state is `incomplete(lost)`.", runbook="LogDataLost"
        )
    expired = [span for span in requested if span[0] in expired_windows or span[0] < first_complete]
    if expired:
        msg = f"Repair of `{work.pipeline.name}`: expected windows whose records are all in the log, which begins at "
        msg += f"offsets {format_offsets(work.earliest)}, got {format_windows(expired)}: past retention."
        msg += " Nothing was read or changed."
        hint = "\nHint: their served rows stay; a part of a window never replaces the complete one."
        raise LogError(msg + hint, runbook="RetentionHeadroomLow")


def reject_unknown(
    pipeline: Pipeline, requested: Sequence[Range], computed: Sequence[Interval], rows: pa.Table
) -> None:
    """Reject a window of which there is nothing: neither a record nor a row on any side.

    Args:
        pipeline: The definition.
        requested: Requested windows.
        computed: Windows with records.
        rows: Rows of the requested windows in the tables: `window_start`, ...

    Raises:
        DefinitionError: A window has neither; its start may be mistyped.
    """
    known_starts = {window.start for window in computed} | set(rows["window_start"].cast(pa.int64()).to_pylist())
    unknown = [span for span in requested if span[0] not in known_starts]
    if unknown:
        msg = f"Repair of `{pipeline.name}`: expected windows with a record or a row, got {format_windows(unknown)}, "
        msg += "which have none."
        raise DefinitionError(
            msg + f"\nHint: the view `serving` (`cutover sql {pipeline.name} ...`) lists the existing ones."
        )


def reject_stale(lake: PipelineLake, draft: RepairDraft, now: datetime) -> None:
    """Reject a draft whose inputs have changed since it was created.

    Raises:
        LakeError: Names the change.
    """
    runs = batch_runs.read_effective_runs(lake)
    newest_run_id = runs[-1].run_id if runs else None
    version = versions.find_current_version(lake)
    accepted = () if version is None else losses.list_up_to(lake.settings, version)
    stage = current_stage(lake).value
    reasons: Sequence[tuple[bool, Callable[[], str]]] = (
        (now >= datetime.fromisoformat(draft.expires), lambda: f"it expired at {draft.expires}"),
        (
            draft.run.batch_fingerprint != batch_fingerprint(lake.pipeline),
            lambda: "the definition's batch side has changed",
        ),
        (newest_run_id != draft.newest_run, lambda: f"{_describe_run(runs)} was recorded meanwhile"),
        (
            version is None or version.number != draft.run.stream_version,
            lambda: f"stream-{draft.run.stream_version} no longer serves",
        ),
        (len(accepted) != draft.losses, lambda: "a loss of the log was accepted meanwhile"),
        (stage != draft.stage, lambda: f"the pipeline went from {draft.stage} to {stage}"),
        (draft.code != digest_code(), lambda: "another release of the code that computes results is installed"),
    )
    reason_text = next((reason() for is_so, reason in reasons if is_so), None)
    if reason_text is not None:
        raise make_stale_error(lake.pipeline, draft, reason_text)


def make_stale_error(pipeline: Pipeline, draft: RepairDraft, reason: str) -> LakeError:
    """Report that a draft can no longer be published, and how to create a new one."""
    windows = " ".join(f"--window {format_micros(start)}" for start, _ in draft.windows[:_SHOWN])
    msg = f"Repair {draft.repair_id} of `{pipeline.name}`: expected the state in which its draft was created "
    msg += f"({draft.created}), but {reason}. Nothing was published."
    return LakeError(msg + f"\nHint: make a new draft: `cutover repair {pipeline.name} {windows or '--dirty'}`.")


def reject_undone(pipeline: Pipeline, repair: BatchRun, batch_runs: Sequence[BatchRun]) -> None:
    """Reject a repair as published if it was undone since.

    Raises:
        LakeError: Names the time of the undo, and the command that computes its windows again.
    """
    undone = next((run for run in batch_runs if run.undoes == repair.run_id), None)
    if undone is not None and repair.repair is not None:
        windows = " ".join(f"--window {format_micros(start)}" for start, _ in repair.repair.windows[:_SHOWN])
        msg = f"Repair {repair.run_id} of `{pipeline.name}`: expected one that was not undone, it was undone at "
        msg += f"{undone.finished}. Nothing was published."
        raise LakeError(msg + f"\nHint: make a new draft: `cutover repair {pipeline.name} {windows}`.")


def reject_touched(pipeline: Pipeline, repair: BatchRun, later: Sequence[BatchRun]) -> None:
    """Reject to take a repair back over what later runs have written.

    Args:
        pipeline: The definition.
        repair: The run to undo.
        later: Runs recorded after it, without those that were undone.

    Raises:
        LakeError: Names the first such run.
    """
    for run in later:
        both = [
            span
            for span in run.computed
            if any(_overlap(pipeline.window, span, repaired_range) for repaired_range in repair.computed)
        ]
        if both or run.anew or run.batch_fingerprint != repair.batch_fingerprint:
            run_kind = "repair" if run.repair else "batch run"
            which = f" ({format_windows(both)})" if both else ""
            msg = (
                f"Repair {repair.run_id} of `{pipeline.name}`: expected no later run over its windows, got {run_kind} "
            )
            msg += f"{run.run_id} of {run.finished}{which}. Nothing was changed."
            hint = f"`cutover repair {pipeline.name} --undo --id {run.run_id[:8]}` undoes that one first."
            other = "The current rows were computed after the repair; a new repair computes them again."
            raise LakeError(msg + "\nHint: " + (hint if run.repair else other))


def _overlap(window: WindowFn, first_range: Range, second_range: Range) -> bool:
    """Return whether some window lies wholly inside both ranges."""
    aligned = window if isinstance(window, AlignedWindowFn) else None
    return aligned is None or holds_a_window(
        aligned, max(first_range[0], second_range[0]), min(first_range[1], second_range[1])
    )


def digest_code() -> str:
    """Return a digest of the code that determines the results of a batch run."""
    return hashlib.sha256(
        json.dumps(readback.hash_modules((*readback.SHARED, *OWN)), sort_keys=True, default=str).encode()
    ).hexdigest()[:16]


def format_windows(windows: Sequence[Range]) -> str:
    """List the first few windows by their starts."""
    start_texts = ", ".join(str(format_micros(start)) for start, _ in windows[:_SHOWN])
    return start_texts + (f" and {len(windows) - _SHOWN} more" if len(windows) > _SHOWN else "")


def find_by_id(pipeline: Pipeline, ids: Sequence[str], id_prefix: str | None, *, subject: str) -> str:
    """Find the one id with a prefix; without a prefix the last one.

    Raises:
        DefinitionError: There is none, or more than one.
    """
    fitting = [run_id for run_id in ids if id_prefix is None or run_id.startswith(id_prefix)]
    if not fitting or (id_prefix is not None and len(set(fitting)) > 1):
        actual = "none" if not fitting else f"{len(set(fitting))}"
        prefix_text = "" if id_prefix is None else f" whose id begins with `{id_prefix[:40]}`"
        msg = f"Repair of `{pipeline.name}`: expected one {subject}{prefix_text}, got {actual}."
        raise DefinitionError(msg + f"\nHint: `cutover repair {pipeline.name}` lists them.")
    return fitting[-1]


def _describe_run(runs: Sequence[BatchRun]) -> str:
    if not runs:
        return "no run that it builds on"
    run = runs[-1]
    description = "a repair" if run.repair else "an undo of a repair" if run.undoes else "a batch run"
    return f"{description} ({run.run_id}, at {run.finished})"
