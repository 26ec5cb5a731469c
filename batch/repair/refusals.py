"""What a repair refuses: windows that cannot be computed, said before any work, and drafts that time has passed."""

import hashlib
import json
from collections.abc import Callable, Sequence
from datetime import datetime

import pyarrow as pa

from cutover.batch.context import RunContext
from cutover.batch.plan.dirty import holds_a_window
from cutover.batch.read import index
from cutover.batch.read.settings_in_force import OWN
from cutover.batch.repair.draft import RepairDraft
from cutover.batch.windows import frozen_before, whole_from
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
from cutover.engine import code
from cutover.errors import DefinitionError, LakeError, LogError
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun, Range
from cutover.lake.control import losses, versions
from cutover.lake.control.losses import is_touched
from cutover.lake.control.stages import current_stage
from cutover.log.topic_partitions import format_offsets
from cutover.records.closing import find_closed_end
from cutover.records.parsing import limits
from cutover.settings import Settings
from cutover.timestamps import format_micros

_SHOWN = 5  # windows that a message names


def require_windows(window: WindowFn, starts: Sequence[int], pipeline: str) -> tuple[Range, ...]:
    """Return the windows that begin at some times, ascending, each once.

    Raises:
        DefinitionError: A time is the start of none of the definition's windows, or the windows are sessions.
    """
    missing_windows = set[Interval]()
    for start in starts:
        if not isinstance(window, AlignedWindowFn):
            msg = f"Repair of `{pipeline}`: expected windows that lie where they lie, got sessions."
            hint = f"\nHint: `cutover batch {pipeline}` computes the sessions that changed, `--anew` all of them."
            raise DefinitionError(msg + hint)
        if not EARLIEST <= start < LATEST:
            msg = f"Window of `{pipeline}`: expected one between the years 1000 and 9000, got {format_micros(start)}."
            raise DefinitionError(msg)
        near = select_last_window(window, start)
        if near.start != start:
            following = format_micros(window.next_start(near.start))
            msg = f"Window of `{pipeline}`: expected the start of one, got {format_micros(start)}."
            raise DefinitionError(msg + f"\nHint: the nearest begin at {format_micros(near.start)} and {following}.")
        missing_windows.add(near)
    return tuple((window.start, window.end) for window in sorted(missing_windows))


def reject_before_scan(work: RunContext, requested: Sequence[Range]) -> None:
    """Reject what the cut, the index and the ends of the log already rule out, before a record is read.

    Args:
        work: The run, before its scan.
        requested: Windows by name; none: all that are dirty.

    Raises:
        DefinitionError: The cut is an older one, or a window is not closed at it.
        LakeError: No earlier run can be reused, although batch has run.
        LogError: A record of a window has left the log, or was lost.
    """
    name, record = work.pipeline.name, work.target.record
    if work.behind:
        msg = f"Repair of `{name}`: expected a cut that is not behind batch's newest run, got epoch {record.epoch}."
        raise DefinitionError(msg + "\nHint: leave out `--cut`, or name a later epoch.")
    if not work.history.runs and batch_runs.read_effective_runs(work.settings, work.pipeline):
        msg = f"Repair of `{name}`: expected batch runs of this definition over this log to build on, found none."
        raise LakeError(msg + f"\nHint: `cutover batch {name}` computes all windows first.", runbook="BatchNotFresh")
    closed_end = find_closed_end(work.pipeline, record.watermark_after)
    still_open = [span for span in requested if closed_end is None or span[1] > closed_end]
    if still_open:
        msg = f"Repair of `{name}`: expected windows that are closed at the cut of epoch {record.epoch} (watermark "
        msg += f"{format_micros(record.watermark_after) or 'not known yet'}), got {describe(still_open)}."
        raise DefinitionError(msg + "\nHint: a window closes once the watermark is past its end by allowed lateness.")
    _reject_expired(work, requested)


def _reject_expired(work: RunContext, requested: Sequence[Range]) -> None:
    window = work.pipeline.window
    if not requested or not isinstance(window, AlignedWindowFn):
        return
    index.bind_ranges(work.connection, work.settings, work.pipeline, work.history)
    expired_windows = index.find_expired_windows(work.connection, work.earliest, work.scan)
    complete_from = whole_from(work, work.new, [start for start, _ in requested], window)
    first_complete = max(frozen_before(work), limits.MIN_MICROS if complete_from is None else complete_from)
    lost_windows = [span for span in requested if is_touched(span[0], work.lost)]
    if lost_windows:
        msg = f"Repair of `{work.pipeline.name}`: expected windows of which the log held every record, got "
        msg += f"{describe(lost_windows)}: a loss was accepted that touches them."
        raise LogError(msg + "\nHint: nothing can compute them; they read `incomplete(lost)`.", runbook="LogDataLost")
    expired = [span for span in requested if span[0] in expired_windows or span[0] < first_complete]
    if expired:
        msg = f"Repair of `{work.pipeline.name}`: expected windows whose records are all in the log, which begins at "
        msg += f"offsets {format_offsets(work.earliest)}, got {describe(expired)}: past retention."
        msg += " Nothing was read or changed."
        hint = "\nHint: what is served of them stays; a part of a window never takes the place of the whole."
        raise LogError(msg + hint, runbook="RetentionHeadroomLow")


def reject_unknown(
    pipeline: Pipeline, requested: Sequence[Range], computed: Sequence[Interval], rows: pa.Table
) -> None:
    """Reject a window of which there is nothing: neither a record nor a row on any side.

    Args:
        pipeline: The definition.
        requested: Windows by name.
        computed: Those with records.
        rows: What the tables hold of the wanted ones: `window_start`, ...

    Raises:
        DefinitionError: A name may be mistyped.
    """
    known_starts = {window.start for window in computed} | set(rows["window_start"].cast(pa.int64()).to_pylist())
    unknown = [span for span in requested if span[0] not in known_starts]
    if unknown:
        msg = f"Repair of `{pipeline.name}`: expected windows with a record or a row, got {describe(unknown)}: nothing "
        msg += "is known of them."
        raise DefinitionError(
            msg + f"\nHint: the view `serving` (`cutover sql {pipeline.name} ...`) has those there are."
        )


def reject_stale(settings: Settings, pipeline: Pipeline, draft: RepairDraft, now: datetime) -> None:
    """Reject a draft whose inputs have changed since it was created.

    Raises:
        LakeError: Says what is another now.
    """
    runs = batch_runs.read_effective_runs(settings, pipeline)
    newest_run_id = runs[-1].run_id if runs else None
    version = versions.current(settings, pipeline)
    accepted = () if version is None else losses.list_up_to(settings, version)
    stage = current_stage(settings, pipeline).value
    reasons: Sequence[tuple[bool, Callable[[], str]]] = (
        (now >= datetime.fromisoformat(draft.expires), lambda: f"it expired at {draft.expires}"),
        (
            draft.run.batch_fingerprint != batch_fingerprint(pipeline),
            lambda: "the definition's batch side is another one",
        ),
        (newest_run_id != draft.newest_run, lambda: f"{_describe_run(runs)} was recorded meanwhile"),
        (
            version is None or version.number != draft.run.stream_version,
            lambda: f"stream-{draft.run.stream_version} serves no more",
        ),
        (len(accepted) != draft.losses, lambda: "a loss of the log was accepted meanwhile"),
        (stage != draft.stage, lambda: f"the pipeline went from {draft.stage} to {stage}"),
        (draft.code != digest_code(), lambda: "another release of the code that judges records is installed"),
    )
    reason_text = next((reason() for is_so, reason in reasons if is_so), None)
    if reason_text is not None:
        raise make_stale_error(pipeline, draft, reason_text)


def make_stale_error(pipeline: Pipeline, draft: RepairDraft, reason: str) -> LakeError:
    """Report that a draft can no longer be published, and how to create a new one."""
    windows = " ".join(f"--window {format_micros(start)}" for start, _ in draft.windows[:_SHOWN])
    msg = f"Repair {draft.repair_id} of `{pipeline.name}`: expected all as it was when its draft was made "
    msg += f"({draft.created}), but {reason}. Nothing was published."
    return LakeError(msg + f"\nHint: look again: `cutover repair {pipeline.name} {windows or '--dirty'}`.")


def reject_undone(pipeline: Pipeline, repair: BatchRun, batch_runs: Sequence[BatchRun]) -> None:
    """Reject a repair as published if it was undone since.

    Raises:
        LakeError: Says when, and how its windows are computed again.
    """
    undone = next((run for run in batch_runs if run.undoes == repair.run_id), None)
    if undone is not None and repair.repair is not None:
        windows = " ".join(f"--window {format_micros(start)}" for start, _ in repair.repair.windows[:_SHOWN])
        msg = f"Repair {repair.run_id} of `{pipeline.name}`: expected one that nobody took back, it was taken back at "
        msg += f"{undone.finished}. Nothing was published."
        raise LakeError(msg + f"\nHint: look again: `cutover repair {pipeline.name} {windows}`.")


def reject_touched(pipeline: Pipeline, repair: BatchRun, later: Sequence[BatchRun]) -> None:
    """Reject to take a repair back over what later runs have written.

    Args:
        pipeline: The definition.
        repair: The run to undo.
        later: Recorded after it, without what was taken back itself.

    Raises:
        LakeError: Names the first of them.
    """
    for run in later:
        both = [
            span
            for span in run.computed
            if any(_meet(pipeline.window, span, repaired_range) for repaired_range in repair.computed)
        ]
        if both or run.anew or run.batch_fingerprint != repair.batch_fingerprint:
            run_kind = "repair" if run.repair else "batch run"
            which = f" ({describe(both)})" if both else ""
            msg = (
                f"Repair {repair.run_id} of `{pipeline.name}`: expected no later run over its windows, got {run_kind} "
            )
            msg += f"{run.run_id} of {run.finished}{which}. Nothing was changed."
            hint = f"`cutover repair {pipeline.name} --undo --id {run.run_id[:8]}` takes that one back first."
            other = "What stands there now was computed after the repair; a new repair computes it again."
            raise LakeError(msg + "\nHint: " + (hint if run.repair else other))


def _meet(window: WindowFn, first: Range, second: Range) -> bool:
    """Return whether some window lies wholly inside both ranges."""
    aligned = window if isinstance(window, AlignedWindowFn) else None
    return aligned is None or holds_a_window(aligned, max(first[0], second[0]), min(first[1], second[1]))


def digest_code() -> str:
    """Return a digest of the code by which a batch run judges records."""
    return hashlib.sha256(
        json.dumps(code.hash_modules((*code.SHARED, *OWN)), sort_keys=True, default=str).encode()
    ).hexdigest()[:16]


def describe(windows: Sequence[Range]) -> str:
    """Name windows by their starts, the first few of them."""
    start_texts = ", ".join(str(format_micros(start)) for start, _ in windows[:_SHOWN])
    return start_texts + (f" and {len(windows) - _SHOWN} more" if len(windows) > _SHOWN else "")


def find_by_id(pipeline: Pipeline, ids: Sequence[str], id_prefix: str | None, *, subject: str) -> str:
    """Return the one id that begins as wanted; the last if none is wanted.

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
        return "nothing that it builds on"
    run = runs[-1]
    description = "a repair" if run.repair else "an undo of a repair" if run.undoes else "a batch run"
    return f"{description} ({run.run_id}, at {run.finished})"
