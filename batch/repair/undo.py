"""Undo of a repair: a separate run restores the rows that it replaced; its scan of the log stays valid."""

import uuid
from collections.abc import Sequence
from dataclasses import replace

from cutover import probe as probes
from cutover.batch import lineage
from cutover.batch.lock import writer_lock
from cutover.batch.plan import dirty
from cutover.batch.plan.dirty import PlanBounds
from cutover.batch.read import index
from cutover.batch.read.index import IndexHistory
from cutover.batch.recompute import reject_foreign
from cutover.batch.repair import checks
from cutover.batch.repair import draft as drafts
from cutover.batch.repair.draft import RepairDraft
from cutover.batch.write import publish
from cutover.batch.write.publish import RunOutput
from cutover.clock import Clock
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.window_fn import AlignedWindowFn
from cutover.engine import queries
from cutover.errors import DefinitionError
from cutover.events import log
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun, Range
from cutover.lake.control import pins, versions
from cutover.lake.control.signature import user
from cutover.lake.serving import serving_table
from cutover.lake.tables.schemas import BATCH_INDEX, batch_ledger_schema
from cutover.lineage.runs import emit_lineage
from cutover.records.closing import find_closed_end
from cutover.settings import Settings


@emit_lineage("repair", lineage.find_touched_by_undo)
def undo(
    settings: Settings,
    pipeline: Pipeline,
    id_prefix: str | None,
    *,
    reason: str = "",
    clock: Clock,
    probe: probes.Probe = probes.silent,
) -> tuple[BatchRun | None, str, bool]:
    """Restore the rows that a repair replaced, in one commit; an unpublished draft is discarded.

    The repair's scan of the log stays valid, so a later run computes windows that are dirty again.

    Returns:
        The run that undid it (None for a draft), the id of the repair or draft, and whether it was undone before this
        call.

    Raises:
        LakeError: A later run wrote the same windows, another run is under way, or a table was changed.
        DefinitionError: There is no such repair.
    """
    with writer_lock(settings, pipeline.name, patience=0):
        recorded_runs = batch_runs.read_recorded_runs(settings, pipeline)
        repaired = {run.run_id: run for run in recorded_runs if run.repair is not None}
        undone = {run.undoes: run for run in recorded_runs if run.undoes is not None}
        waiting = drafts.find_waiting(settings, pipeline, {run.run_id for run in recorded_runs})
        # The newest repair, even if undone: repeating the command must not undo the one before.
        ids = [*repaired] if id_prefix is None else [*waiting.ids, *repaired]
        repair_id = checks.find_by_id(pipeline, ids, id_prefix, subject="repair to undo")
        if repair_id in undone:
            return undone[repair_id], repair_id, True
        reject_foreign(settings, pipeline)  # also rolls back a run that was killed
        if repair_id not in repaired:
            _release(settings, pipeline, waiting.readable.get(repair_id), clock)
            drafts.discard(settings, pipeline, repair_id)
            return None, repair_id, False
        sequence, runs = (
            batch_runs.next_sequence(settings, pipeline),
            batch_runs.read_effective_runs(settings, pipeline),
        )
        position = [run.run_id for run in runs].index(repair_id)
        checks.reject_touched(pipeline, runs[position], runs[position + 1 :])
        undo_run = _make_undo(settings, pipeline, runs, repaired[repair_id], reason, clock)
        history = IndexHistory(runs=tuple(runs), next_sequence=sequence)
        published = publish.commit_run(settings, pipeline, history, undo_run, probe=probe, clock=clock)
        serving_table.update_tables(settings, pipeline)
        log.info("repair_undone", pipeline=pipeline.name, repair=repair_id, **publish.summarize(published))
        return published, repair_id, False


def _make_undo(
    settings: Settings, pipeline: Pipeline, runs: Sequence[BatchRun], repair: BatchRun, reason: str, clock: Clock
) -> RunOutput:
    """Make the run that undoes a repair: it has the newest run's cut, and computes and scans nothing."""
    if repair.repair is None:
        msg = f"Run {repair.run_id}: expected a repair, got a batch run."
        raise DefinitionError(msg)
    newest = runs[-1]
    without = [replace(run, computed=()) if run.run_id == repair.run_id else run for run in runs]
    stale = {*newest.stale, *_list_dirty_again(settings, pipeline, without, repair)}
    run = replace(
        newest,
        run_id=uuid.uuid4().hex,
        scanned={},
        computed=(),
        wanted=None,
        stale=tuple(sorted(stale)),
        counts={},
        id_conflicts=0,
        contract=(),
        anew=False,
        dimensions={},
        in_force_items=None,
        repair=None,
        undoes=repair.run_id,
        said=f"{user()}: {reason}",
        files={},
        started=clock.now().isoformat(),
    )
    rows = drafts.read_draft_rows(drafts.draft_folder(settings, pipeline, repair.run_id), repair.repair.files["before"])
    return RunOutput(
        run=run,
        ranges=BATCH_INDEX.empty_table(),
        ledger=batch_ledger_schema(pipeline).empty_table(),
        rows=rows,
        replaced=repair.computed,
        began=clock.monotonic(),
    )


def _list_dirty_again(
    settings: Settings, pipeline: Pipeline, runs: Sequence[BatchRun], repair: BatchRun
) -> tuple[Range, ...]:
    """List the repaired windows that records have touched since they were last computed before the repair."""
    window = pipeline.window
    if not isinstance(window, AlignedWindowFn):
        return ()
    with queries.connect() as connection:
        index.bind_ranges(connection, settings, pipeline, IndexHistory(runs=tuple(runs)))
        touches = index.list_touched_windows(connection)
    touches_inside = [
        touch for touch in touches if any(dirty.is_inside(touch.window, span) for span in repair.computed)
    ]
    bounds = PlanBounds(window=window, closed=find_closed_end(pipeline, runs[-1].watermark), requested=())
    return dirty.plan(touches_inside, [run.computed for run in runs], bounds).stale


def _release(settings: Settings, pipeline: Pipeline, draft: RepairDraft | None, clock: Clock) -> None:
    version = versions.current(settings, pipeline)
    if version is not None and draft is not None:
        pins.release(
            settings, version, draft.run.epoch, holder=pins.name_batch_holder(draft.repair_id), now=clock.now()
        )
