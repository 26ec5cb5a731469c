"""Publish a run: what was scanned, then the windows, then the row that makes the run count."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties

from cutover.batch.context import RunContext, StagedRun
from cutover.batch.read import index, scan
from cutover.batch.read.index import IndexHistory
from cutover.batch.write.replace import replace_windows
from cutover.batch.write.result import read_staged_rows
from cutover.clock import Clock
from cutover.definition.compile.fingerprint import batch_fingerprint, result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.engine.spark import is_local
from cutover.engine.usage import UsageMeter
from cutover.lake.batch_runs import BatchRun, Range
from cutover.lake.path_cost import PathCost, add_costs, measure_cost
from cutover.lake.paths import BATCH_TABLES, BatchTable, batch_uri
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import batch_schema
from cutover.probe import Probe
from cutover.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutput:
    """All that a run publishes, before anything of it is committed."""

    run: BatchRun  # without the table versions that it will make
    ranges: pa.Table  # of the batch index
    ledger: pa.Table
    rows: pa.Table
    replaced: tuple[Range, ...]  # the windows whose place they take: what the run computed, or takes back
    began: float  # monotonic seconds at the run's beginning
    kept: pa.Table | None = None  # of a run that replaces the whole table: rows of the windows that it did not compute
    meter: UsageMeter = field(default_factory=UsageMeter)  # counts what comes after `run.cost`


def publish(work: RunContext, found: StagedRun, probe: Probe, clock: Clock) -> BatchRun:
    """Commit the index and the ledger, the batch table, and the run; return the run."""
    return commit(work.settings, work.pipeline, work.history, prepare(work, found), probe=probe, clock=clock)


def prepare(work: RunContext, found: StagedRun) -> RunOutput:
    """Collect what a run has staged, as rows in memory that need neither its connection nor its folder any more."""
    return RunOutput(
        run=_make_run(work, found),
        ranges=scan.range_rows(work.connection, work.run_id, work.target),
        ledger=scan.ledger_rows(work.connection, work.pipeline, work.run_id, work.target),
        rows=read_staged_rows(work),
        replaced=found.plan.computed,
        began=work.began,
        kept=None if found.kept is None else found.kept.rows,
    )


def commit(
    settings: Settings, pipeline: Pipeline, history: IndexHistory, made: RunOutput, *, probe: Probe, clock: Clock
) -> BatchRun:
    """Commit the index and the ledger, the batch table, and the run; return the run.

    A run that is killed before its own row was written never counted: the next one takes its index and ledger rows out,
    finds the same windows dirty and replaces them again.
    """
    run = made.run
    ledger_version = index.record_scan(settings, pipeline, history, ranges=made.ranges, ledger=made.ledger, run=run)
    probe("batch.indexed", run.epoch)
    batch_version = _replace(settings, pipeline, made)
    probe("batch.written", run.epoch)
    done = replace(
        run,
        batch_version=batch_version,
        ledger_version=ledger_version,
        cost=_measure_cost(settings, pipeline, made),
        finished=clock.now().isoformat(),
        seconds=round(clock.monotonic() - made.began, 3),
    )
    rows: dict[BatchTable, int] = {"batch_index": made.ranges.num_rows, "batch_ledger": made.ledger.num_rows}
    recorded = index.record_run(settings, pipeline, done, sequence=history.next_sequence, rows=rows)
    probe("batch.committed", run.epoch)
    return recorded


def summary(run: BatchRun) -> dict[str, Any]:
    """Return what a log line says of a run: counts, bounds and offsets."""
    return {
        "run_id": run.run_id,
        "epoch": run.epoch,
        "scanned": sum(end - start for start, end in run.scanned.values()),
        "counts": dict(run.counts),
        "computed": len(run.computed),
        "stale": len(run.stale),
        "incomplete": len(run.incomplete),
        "batch_version": run.batch_version,
        "seconds": run.seconds,
    }


def _replace(settings: Settings, pipeline: Pipeline, made: RunOutput) -> int:
    table = delta.ensure(batch_uri(settings, pipeline), batch_schema(pipeline))
    note = json.dumps({"run_id": made.run.run_id, "epoch": made.run.epoch})
    return replace_windows(
        table,
        made.rows,
        made.replaced,
        of=made.run.run_id,
        instead_of=made.kept,
        commit=CommitProperties(max_commit_retries=0, custom_metadata={"userMetadata": note}),
    )


def _make_run(work: RunContext, found: StagedRun) -> BatchRun:
    record, wanted = work.target.record, work.wanted or ()
    return BatchRun(
        run_id=work.run_id,
        epoch=record.epoch,
        stream_version=work.target.version.number,
        topic=record.topic,
        topic_id=record.topic_id,
        cluster_id=record.cluster_id,
        cut=dict(record.end),
        scanned=dict(found.scanned),
        watermark=record.watermark_after,
        result_fingerprint=result_fingerprint(work.pipeline),
        batch_fingerprint=batch_fingerprint(work.pipeline),
        **work.judging.make_run_fields(work.pipeline, work.history),
        wanted=wanted[0] if len(wanted) == 1 else None,
        computed=found.plan.computed,
        stale=found.plan.stale,
        incomplete=found.incomplete,
        counts=scan.class_counts(work.connection, work.pipeline),
        id_conflicts=scan.id_conflicts(work.connection, work.pipeline),
        contract=found.contract,
        open_from=found.open_from,
        marks=dict(record.marks),
        anew=work.anew,
        kept=() if found.kept is None else found.kept.ranges,
        left_out=found.plan.left_out,
        dimensions=dict(work.lookups.spans),
        cost=measure_cost(work.meter, is_local=is_local(work.settings), written_bytes=0),
        started=work.started.isoformat(),
    )


def _measure_cost(settings: Settings, pipeline: Pipeline, made: RunOutput) -> PathCost:
    """Return what was used until the run was prepared, by another process where it is a draft, and since."""
    written = _count_written_bytes(settings, pipeline, made.run.run_id)
    since = measure_cost(made.meter, is_local=is_local(settings), written_bytes=written)
    return since if made.run.cost is None else add_costs(made.run.cost, since)


def _count_written_bytes(settings: Settings, pipeline: Pipeline, run_id: str) -> int:
    """Return the size of the files that a run has added to its tables, by their names; its own record comes after."""
    tables = (batch_uri(settings, pipeline, name) for name in BATCH_TABLES)
    listed = (action for uri in tables if delta.exists(uri) for action in delta.actions(delta.open_table(uri)))
    return sum(int(action["size_bytes"]) for action in listed if f"-{run_id}-" in str(action["path"]))
