"""Draft, publication and undo of a repair: each holds the batch lock, and none waits for another run.

Undo is a separate run that restores the rows that the repair replaced; the repair's scan of the log stays valid.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from cutover import clock as probes
from cutover.batch import plan
from cutover.batch.context import OtherSettings, RunContext, writer_lock
from cutover.batch.plan import PlanBounds
from cutover.batch.read import index
from cutover.batch.read.index import IndexHistory
from cutover.batch.read.scan import pin_cut
from cutover.batch.recompute import compute_run, first_retained, open_run, reject_foreign
from cutover.batch.repair import checks
from cutover.batch.repair import draft as drafts
from cutover.batch.repair.draft import (
    RepairDraft,
    RepairEffect,
    WaitingDrafts,
    compute_effect,
    have_equal_rows,
    read_served,
)
from cutover.batch.write import publish
from cutover.batch.write.publish import RunOutput
from cutover.changes import user
from cutover.clock import Clock
from cutover.definition.windows.kinds import Sessions
from cutover.definition.windows.window_fn import AlignedWindowFn
from cutover.engine import queries, spark
from cutover.errors import DefinitionError, LakeError
from cutover.events import log
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun, Range, Repair
from cutover.lake.control import losses, pins, versions
from cutover.lake.control.served import current_stage
from cutover.lake.serving import serving_table
from cutover.lake.tables.schemas import BATCH_INDEX, batch_ledger_schema
from cutover.lineage import runs
from cutover.lineage.runs import emit_lineage
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.records.watermark import find_closed_end


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafted:
    """Draft with its effect; both are None if nothing was dirty."""

    draft: RepairDraft | None
    effect: RepairEffect | None


def make_draft(
    lake: PipelineLake,
    windows: Sequence[Range],
    *,
    epoch: int | None = None,
    clock: Clock,
    probe: probes.Probe = probes.silent,
) -> Drafted:
    """Recompute windows by the batch path and store them next to the tables, which do not change.

    Args:
        lake: Pipeline to repair.
        windows: Result of `require_windows`; empty: all windows that are dirty at the cut.
        epoch: The cut; None: the newest epoch.
        clock: For the creation and the expiry of the draft.
        probe: Called at `batch.read` and `repair.staged`.

    Raises:
        LogError: A window is past retention, or the log is not the one that was read before.
        LakeError: A run or another repair is under way, or a table was changed by another writer.
        DefinitionError: A window is open, not known, or not one that a repair can compute.
        ContractError: A critical expectation failed.
    """
    pipeline = lake.pipeline
    spark.make_spark_conf(lake.settings)
    if isinstance(pipeline.window, Sessions):
        checks.require_windows(pipeline.window, [0], pipeline.name)
    requested = tuple(windows)
    try:
        with open_run(lake, epoch, requested or None, clock, confirmed=True, patience=0) as work:
            checks.reject_before_scan(work, requested)
            return _compute_draft(work, requested, clock, probe)
    except OtherSettings:
        msg = f"Repair of `{pipeline.name}`: expected the settings of earlier batch runs, got others."
        hint = f"\nHint: `cutover batch {pipeline.name}` recomputes everything under the current settings."
        raise LakeError(msg + hint, runbook="SealBroken") from None


def _compute_draft(work: RunContext, requested: tuple[Range, ...], clock: Clock, probe: probes.Probe) -> Drafted:
    lake, settings, pipeline = work.lake, work.lake.settings, work.pipeline
    run_output = compute_run(work, probe)
    prepared = publish.collect_output(work, run_output)
    draft_effect = compute_effect(lake, prepared.rows, prepared.replaced)
    starts = [table.select(["window_start"]) for table in (draft_effect.served, draft_effect.batch_rows)]
    checks.reject_unknown(pipeline, requested, run_output.plan.compute, pa.concat_tables(starts))
    if not prepared.replaced:
        holder = pins.name_batch_holder(prepared.run.run_id)
        pins.release_pin(settings, work.target.version, prepared.run.epoch, holder=holder, now=clock.now())
        return Drafted(draft=None, effect=None)
    now = clock.now()
    recorded_ids = [run.run_id for run in batch_runs.read_recorded_runs(lake)]
    drafts.discard_expired(lake, recorded_ids, now)
    waiting = drafts.find_waiting(lake, recorded_ids)
    uri = drafts.draft_folder(lake, prepared.run.run_id)
    tables = {**drafts.to_files(prepared), "served": draft_effect.served, "before": draft_effect.batch_rows}
    newest = batch_runs.read_effective_runs(lake)
    repair_draft = RepairDraft(
        run=prepared.run,
        windows=requested or prepared.replaced,
        newest_run=newest[-1].run_id if newest else None,
        stage=current_stage(lake).value,
        losses=len(work.accepted_losses),
        code=checks.digest_code(),
        created=now.isoformat(),
        expires=(now + pins.LONGEST).isoformat(),
        sequence=waiting.next_sequence,
        counts=draft_effect.counts,
        served_from=draft_effect.served_from,
        files=drafts.write_draft_rows(uri, tables),
    )
    drafts.save_draft(lake, repair_draft)
    probe("repair.staged", prepared.run.epoch)
    counts = repair_draft.counts["served"]
    log.info("repair_drafted", pipeline=pipeline.name, repair=repair_draft.repair_id, counts=counts)
    return Drafted(draft=repair_draft, effect=draft_effect)


@runs.emit_lineage("repair", publish.find_touched_by_repair)
def publish_draft(
    lake: PipelineLake,
    id_prefix: str | None,
    *,
    reason: str = "",
    clock: Clock,
    probe: probes.Probe = probes.silent,
) -> tuple[BatchRun, bool]:
    """Publish a draft as a separate batch run: once its row is committed, readers see all of it, before that nothing.

    Args:
        lake: Pipeline that the draft repairs.
        id_prefix: Prefix of the id of the draft; None: the newest unpublished one.
        reason: A person's reason.
        clock: For the time of publication.
        probe: Called at `repair.checked`, `batch.indexed`, `batch.written` and `batch.committed`.

    Returns:
        The recorded run, and whether it had been published before, so that there was nothing to do.

    Raises:
        LakeError: The draft is stale, the repair was undone, another run is under way, or another writer changed a
            table.
        LogError: The log is another one than that of the draft.
        DefinitionError: There is no such draft.
    """
    pipeline = lake.pipeline
    started, began = (
        clock.now(),
        clock.monotonic(),
    )  # the run starts now: the time for which the draft waited does not count
    with writer_lock(lake.settings, pipeline.name, patience=0):
        runs_by_id = {run.run_id: run for run in batch_runs.read_recorded_runs(lake)}
        waiting = drafts.find_waiting(lake, runs_by_id)
        repair_id = _choose_draft(lake, waiting, id_prefix, [r.run_id for r in runs_by_id.values() if r.repair])
        if repair_id in runs_by_id:
            checks.reject_undone(pipeline, runs_by_id[repair_id], [*runs_by_id.values()])
            return runs_by_id[repair_id], True
        draft = waiting.get(repair_id)
        checks.reject_stale(lake, draft, clock.now())
        reject_foreign(lake)
        with pin_cut(lake, draft.run.epoch, holder=pins.name_batch_holder(draft.repair_id), clock=clock) as target:
            accepted = losses.list_up_to(lake.settings, target.version)
            first_retained(LogClient(lake.settings), pipeline, target)
            history = index.load_history(lake, target.record.cut.log, accepted)
            _reject_other_answers(lake, draft)
            probe("repair.checked", draft.run.epoch)
            repair = _make_repair(lake, draft, target.newest.epoch, reason)
            run = replace(draft.run, repair=repair, started=started.isoformat())
            run_output = drafts.to_output(lake, run, draft, began=began)
            published = publish.commit_run(lake, history, run_output, probe=probe, clock=clock)
        serving_table.update_tables(lake)
        log.info("repair_published", pipeline=pipeline.name, **publish.summarize_run(published))
        return published, False


def _reject_other_answers(lake: PipelineLake, draft: RepairDraft) -> None:
    """Check that the served rows are those that the draft was compared with."""
    rows = drafts.read_draft_rows(drafts.draft_folder(lake, draft.repair_id), draft.files["served"])
    now = read_served(lake, draft.run.computed)
    served_rows = rows.filter(pc.is_valid(rows["_served_by"]))
    if not have_equal_rows(lake.pipeline, served_rows, now):
        raise checks.make_stale_error(lake.pipeline, draft, "the served rows of these windows have changed since")


def _make_repair(lake: PipelineLake, draft: RepairDraft, epoch: int, reason: str) -> Repair:
    runs_of_version = batch_runs.read_effective_runs(lake)
    return Repair(
        windows=draft.windows,
        who=user(),
        why=reason,
        stage=draft.stage,
        stream_epoch=epoch,
        batch_run=runs_of_version[-1].run_id if runs_of_version else None,
        batch_version=runs_of_version[-1].batch_version if runs_of_version else None,
        counts=draft.counts.get("served", {}),
        served_from=draft.served_from,
        files={name: draft.files[name] for name in ("served", "before")},
    )


def _choose_draft(lake: PipelineLake, waiting: WaitingDrafts, id_prefix: str | None, published: Sequence[str]) -> str:
    """Choose the draft to publish, or a published repair that is named again.

    Raises:
        LakeError: No draft is named, and an unreadable one could be the newest.
    """
    if id_prefix is None and waiting.unreadable:
        waiting.get(next(iter(waiting.unreadable)))
    ids = waiting.ids if id_prefix is None else (*published, *waiting.ids)
    other_definitions = drafts.list_other_definitions(lake)
    if not any(id_prefix is None or draft_id.startswith(id_prefix) for draft_id in ids) and any(
        id_prefix is None or other.startswith(id_prefix) for other in other_definitions
    ):
        msg = f"Repair of `{lake.name}`: expected a draft of the definition in force, got one of another "
        msg += "definition (other results). Nothing was published."
        raise LakeError(msg + f"\nHint: make a new draft: `cutover repair {lake.name} --window ...`.")
    return checks.find_by_id(lake.pipeline, ids, id_prefix, subject="draft to publish")


def list_repairs(lake: PipelineLake) -> list[dict[str, object]]:
    """List all repairs and drafts with their facts, oldest first: `id`, `state`, `at`, `windows`, `counts`, ...

    `state` is `published`, `undone`, `draft` or `unreadable`.
    """
    recorded_runs = batch_runs.read_recorded_runs(lake)
    undone = {run.undoes: run.finished for run in recorded_runs if run.undoes is not None}
    rows: list[dict[str, object]] = []
    for run in recorded_runs:
        if run.repair is not None:
            state = "undone" if run.run_id in undone else "published"
            rows.append({"id": run.run_id, "state": state, "at": run.finished, "undone": undone.get(run.run_id)})
            rows[-1] |= {"epoch": run.epoch, "batch_version": run.batch_version, "repair": run.repair}
    waiting = drafts.find_waiting(lake, {run.run_id for run in recorded_runs})
    rows += [{"id": draft_id, "state": "unreadable", "at": None, "epoch": None} for draft_id in waiting.unreadable]
    return [*rows, *({"state": "draft", "at": d.created, **drafts.to_fields(d)} for d in waiting.readable.values())]


@emit_lineage("repair", publish.find_touched_by_undo)
def undo_repair(
    lake: PipelineLake,
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
    pipeline = lake.pipeline
    with writer_lock(lake.settings, pipeline.name, patience=0):
        recorded_runs = batch_runs.read_recorded_runs(lake)
        repaired = {run.run_id: run for run in recorded_runs if run.repair is not None}
        undone = {run.undoes: run for run in recorded_runs if run.undoes is not None}
        waiting = drafts.find_waiting(lake, {run.run_id for run in recorded_runs})
        # The newest repair, even if undone: repeating the command must not undo the one before.
        ids = [*repaired] if id_prefix is None else [*waiting.ids, *repaired]
        repair_id = checks.find_by_id(pipeline, ids, id_prefix, subject="repair to undo")
        if repair_id in undone:
            return undone[repair_id], repair_id, True
        reject_foreign(lake)  # also rolls back a run that was killed
        if repair_id not in repaired:
            _release(lake, waiting.readable.get(repair_id), clock)
            drafts.discard(lake, repair_id)
            return None, repair_id, False
        sequence, runs = (
            batch_runs.read_next_run_sequence(lake),
            batch_runs.read_effective_runs(lake),
        )
        position = [run.run_id for run in runs].index(repair_id)
        checks.reject_touched(pipeline, runs[position], runs[position + 1 :])
        undo_run = _make_undo(lake, runs, repaired[repair_id], reason, clock)
        history = IndexHistory(runs=tuple(runs), next_sequence=sequence)
        published = publish.commit_run(lake, history, undo_run, probe=probe, clock=clock)
        serving_table.update_tables(lake)
        log.info("repair_undone", pipeline=pipeline.name, repair=repair_id, **publish.summarize_run(published))
        return published, repair_id, False


def _make_undo(lake: PipelineLake, runs: Sequence[BatchRun], repair: BatchRun, reason: str, clock: Clock) -> RunOutput:
    """Make the run that undoes a repair: it has the newest run's cut, and computes and scans nothing."""
    if repair.repair is None:
        msg = f"Run {repair.run_id}: expected a repair, got a batch run."
        raise DefinitionError(msg)
    newest = runs[-1]
    without = [replace(run, computed=()) if run.run_id == repair.run_id else run for run in runs]
    stale = {*newest.stale, *_list_dirty_again(lake, without, repair)}
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
    rows = drafts.read_draft_rows(drafts.draft_folder(lake, repair.run_id), repair.repair.files["before"])
    return RunOutput(
        run=run,
        ranges=BATCH_INDEX.empty_table(),
        ledger=batch_ledger_schema(lake.pipeline).empty_table(),
        rows=rows,
        replaced=repair.computed,
        began=clock.monotonic(),
    )


def _list_dirty_again(lake: PipelineLake, runs: Sequence[BatchRun], repair: BatchRun) -> tuple[Range, ...]:
    """List the repaired windows that records have touched since they were last computed before the repair."""
    window = lake.pipeline.window
    if not isinstance(window, AlignedWindowFn):
        return ()
    with queries.open_duckdb() as connection:
        index.bind_ranges(connection, lake, IndexHistory(runs=tuple(runs)))
        touches = index.list_touched_windows(connection)
    touches_inside = [touch for touch in touches if any(plan.is_inside(touch.window, span) for span in repair.computed)]
    bounds = PlanBounds(window=window, closed=find_closed_end(lake.pipeline, runs[-1].watermark), requested=())
    return plan.plan(touches_inside, [run.computed for run in runs], bounds).stale


def _release(lake: PipelineLake, draft: RepairDraft | None, clock: Clock) -> None:
    version = versions.find_current_version(lake)
    if version is not None and draft is not None:
        pins.release_pin(
            lake.settings, version, draft.run.epoch, holder=pins.name_batch_holder(draft.repair_id), now=clock.now()
        )
