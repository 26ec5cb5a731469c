"""Publish a run: what was scanned, then the windows, then the row that makes the run count."""

import json
from collections.abc import Mapping
from typing import Any

from deltalake import CommitProperties

from cutover.batch.context import RunContext, StagedRun
from cutover.batch.read import index, scan
from cutover.batch.write.replace import replace_windows
from cutover.batch.write.result import read_staged_rows
from cutover.clock import Clock
from cutover.definition.compile.fingerprint import batch_fingerprint, result_fingerprint
from cutover.lake.batch_runs import BatchRun
from cutover.lake.paths import batch_uri
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import batch_schema
from cutover.probe import Probe


def publish(work: RunContext, found: StagedRun, probe: Probe, clock: Clock) -> BatchRun:
    """Commit the index and the ledger, the batch table, and the run; return the run.

    A run that is killed before its own row was written never counted: the next one takes its index and ledger rows out,
    finds the same windows dirty and replaces them again.
    """
    ledger_version = index.record_scan(
        work.settings,
        work.pipeline,
        work.history,
        ranges=scan.range_rows(work.connection, work.run_id, work.target),
        ledger=scan.ledger_rows(work.connection, work.pipeline, work.run_id, work.target),
        run_id=work.run_id,
    )
    batch_version = _replace(work, found)
    probe("batch.written", work.target.record.epoch)
    versions = {"batch_version": batch_version, "ledger_version": ledger_version}
    recorded = index.record_run(work.settings, work.pipeline, _run(work, found, versions, clock))
    probe("batch.committed", work.target.record.epoch)
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


def _replace(work: RunContext, found: StagedRun) -> int:
    table = delta.ensure(batch_uri(work.settings, work.pipeline), batch_schema(work.pipeline))
    note = json.dumps({"run_id": work.run_id, "epoch": work.target.record.epoch})
    return replace_windows(
        table,
        read_staged_rows(work),
        found.plan.computed,
        of=work.run_id,
        anew=work.anew,
        commit=CommitProperties(max_commit_retries=0, custom_metadata={"userMetadata": note}),
    )


def _run(work: RunContext, found: StagedRun, versions: Mapping[str, int], clock: Clock) -> BatchRun:
    record, finished = work.target.record, clock.now()
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
        wanted=work.wanted,
        computed=found.plan.computed,
        stale=found.plan.stale,
        incomplete=found.incomplete,
        batch_version=versions["batch_version"],
        ledger_version=versions["ledger_version"],
        counts=scan.class_counts(work.connection, work.pipeline),
        id_conflicts=scan.id_conflicts(work.connection, work.pipeline),
        contract=found.contract,
        open_from=found.open_from,
        marks=dict(record.marks),
        anew=work.anew,
        dimensions=dict(work.lookups.spans),
        started=work.started.isoformat(),
        finished=finished.isoformat(),
        seconds=round((finished - work.started).total_seconds(), 3),
    )
