"""One run of the batch path: from the log to the batch table, up to a cut, for the windows that are dirty there.

The metrics of a run are its cut, the records that it read and the rows that it wrote. `recompute_apart` does the same
in tables that are never served, with which an audit compares the stream; it neither reads nor changes earlier runs.
"""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from pyarrow import fs

from cutover import clock as probes
from cutover import metrics
from cutover.batch import plan, windows
from cutover.batch.at_position import compute_rows_at_position, publish_rows_at_position
from cutover.batch.context import PATIENCE, OtherSettings, RunContext, StagedRun, are_apart, writer_lock
from cutover.batch.read import index, scan
from cutover.batch.read.index import IndexHistory
from cutover.batch.read.scan import BatchCut, BatchEnrichment, check_offsets, check_same_topic, pin_cut, staging
from cutover.batch.windows import plan_windows
from cutover.batch.write import publish
from cutover.batch.write.replace import roll_back_unfinished_run
from cutover.batch.write.result import STAGED, read_uncomputed_rows, stage_result, stage_rows
from cutover.clock import Clock, SystemClock
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.policy import Stage
from cutover.definition.windows.kinds import Sessions
from cutover.definition.windows.window_fn import extend_to_windows
from cutover.engine import queries, spark
from cutover.engine.usage import UsageMeter
from cutover.errors import CutoverError, DefinitionError, LakeError, LogError
from cutover.events import log
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun, Range, RecordedTable
from cutover.lake.control import losses, pins, versions
from cutover.lake.control.served import current_stage
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.integrity import lost_records, same_log, table_weights
from cutover.lake.integrity.foreign_commits import Kind
from cutover.lake.serving import serving_table
from cutover.lake.tables import delta
from cutover.lineage import runs
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import format_partition, name_log
from cutover.metrics import MetricSample
from cutover.pipeline_lake import BATCH_TABLES, PipelineLake
from cutover.records.reading.scan import Offsets
from cutover.settings import Settings
from cutover.timestamps import to_micros


def list_run_samples(pipeline: Pipeline, run: BatchRun | None) -> Iterator[MetricSample]:
    """Yield the numbers of a run; none of one that KAPPA left out."""
    if run is None:
        return
    for name, value in (
        ("epoch", run.epoch),
        ("duration_seconds", run.seconds),
        ("scanned_offsets", sum(end - start for start, end in run.scanned.values())),
        ("stale_ranges", len(run.stale)),
        ("incomplete_ranges", len(run.incomplete)),
    ):
        yield MetricSample(f"cutover_batch_{name}", (pipeline.name,), value)


@runs.emit_lineage("batch", publish.find_touched_by_run)
@metrics.write_metrics("batch", metrics.describe_samples(list_run_samples))
def recompute_windows(  # noqa: PLR0913 -- what to compute, and what a test passes
    lake: PipelineLake,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    epoch: int | None = None,
    anew: bool = False,
    confirmed: bool = False,
    probe: probes.Probe = probes.silent,
    clock: Clock | None = None,
) -> BatchRun | None:
    """Recompute the windows that are dirty at a cut, and publish them in one commit.

    Args:
        lake: Pipeline to compute.
        start: With `end`: exactly the closed windows that `[start, end)` touches are computed, including clean ones. A
            time without a zone is UTC.
        end: See `start`.
        epoch: The cut; None: the newest epoch of the current stream version. If batch has read beyond the cut, nothing
            is computed, and windows in which the batch table is ahead of the cut are recorded as stale.
        anew: No earlier run is trusted: the whole log is read again, and the table is replaced. Windows that
            this run cannot compute, or that are not requested, keep the rows of the newest recorded run.
        confirmed: The team's SQL may leave out windows and most rows that the batch table has.
        probe: Called at `batch.read`, `batch.written`, `batch.committed`.
        clock: The wall clock.

    Returns:
        The run as it was recorded; None in stage KAPPA, where batch does not run.

    Raises:
        LogError: No epoch, a cut that the log does not reach or no longer holds, another log than before.
        ContractError: A critical expectation failed; nothing was published.
        DefinitionError: The settings hold a conf that a result could depend on, the range, the team's SQL or an
            expectation cannot be used, or a range of sessions is requested, which may lie across its ends; nothing was
            published.
        LakeError: Another run did not end, or a table cannot be read.
    """
    spark.make_spark_conf(lake.settings)
    requested = make_requested_range(start, end)
    if requested is not None:
        requested = _align_range(lake.pipeline, requested)
    if current_stage(lake) is Stage.KAPPA:
        log.info("batch_skipped", pipeline=lake.name, stage=Stage.KAPPA.value)
        return None
    ranges, meter, clock = None if requested is None else (requested,), UsageMeter(), clock or SystemClock()
    try:
        with open_run(lake, epoch, ranges, clock, anew=anew, confirmed=confirmed, meter=meter) as work:
            completed = compute_and_publish(work, probe, clock)
    except OtherSettings as changed:
        log.warning("batch_begins_anew", pipeline=lake.name, why="settings in force changed", runbook="SealBroken")
        next_run = open_run(
            lake, epoch, ranges, clock, anew=anew, confirmed=confirmed, settings_digest=changed.digest, meter=meter
        )
        with next_run as work:
            completed = compute_and_publish(work, probe, clock)
    serving_table.update_tables(lake)
    return completed


def _align_range(pipeline: Pipeline, requested: Range) -> Range:
    """Extend a range to whole windows; sessions have no fixed bounds for it."""
    if isinstance(pipeline.window, Sessions):
        msg = f"Range of windows of `{pipeline.name}`: expected none with sessions, which may lie across its ends."
        raise DefinitionError(msg + "\nHint: without `--from` and `--to` all sessions that changed are computed.")
    start, end = extend_to_windows(pipeline.window, requested)
    return start, end


def compute_and_publish(work: RunContext, probe: probes.Probe, clock: Clock) -> BatchRun:
    """Scan, plan, compute, check, publish."""
    run_output = compute_run(work, probe)
    rows_at_position = compute_rows_at_position(work)
    recorded_run = publish.publish_run(work, run_output, probe, clock)
    publish_rows_at_position(work, rows_at_position)
    log.info("batch_committed", pipeline=work.pipeline.name, **publish.summarize_run(recorded_run))
    return recorded_run


def compute_run(work: RunContext, probe: probes.Probe) -> StagedRun:
    """Scan, plan, compute and check; nothing is committed.

    Raises:
        OtherSettings: The runs that this one builds on used other settings.
        ContractError: A critical expectation failed.
        LogError: The log changed while it was read, or lacks records that it held.
    """
    try:
        staged_run = _scan_and_stage(work, probe)
    except CutoverError:
        raise
    except Exception as error:
        _explain_failed_read(work, error)
        raise
    first_retained(work.client, work.pipeline, work.target)  # later reads are from the log of the stream
    reject_lost(work)
    return staged_run


def _scan_and_stage(work: RunContext, probe: probes.Probe) -> StagedRun:
    scanned = plan.remaining_offsets(work.new_offsets, work.earliest)
    if scanned:
        scan.stage_scan(work.records((scanned,)), work.pipeline, work.staged, work.dimensions((scanned,)))
    else:
        if work.history.newest is None or are_apart(work.history, work.target):
            work.settings_recorder.check_session(work.spark, work.pipeline, work.history)
        scan.stage_nothing(work.pipeline, work.connection)
    index.bind_ranges(work.connection, work.lake, work.history)
    index.add_ranges(work.connection, scan.TOUCHED, work.scan)
    probe("batch.read", work.target.record.epoch)
    return _stage_run(work, scanned)


def _explain_failed_read(work: RunContext, error: Exception) -> None:
    """Raise the cause of a failed read if the log now begins after one of its ranges, since Spark's error is unclear.

    Raises:
        LogError: Records left the log while they were read.
    """
    earliest = work.client.earliest(work.target.record.topic)
    starts = (
        (p, start)
        for read in work.counted_reads
        for offsets in read.reads
        for p, (start, end) in offsets.items()
        if start < end
    )
    for partition, start in sorted(starts):
        if earliest.get(partition, 0) > start:
            msg = f"Log of `{work.pipeline.name}`, {format_partition(work.target.record.topic, partition)}: expected "
            msg += f"offset {start}, the log starts at {earliest[partition]}: records left it while batch read them."
            command = f"`cutover batch {work.pipeline.name}{versions.format_option(work.lake.settings.stream_version)}`"
            hint = f"\nHint: nothing was published; {command} computes from the remaining records."
            raise LogError(msg + hint, runbook="LogDataLost") from error


def reject_lost(work: RunContext) -> None:
    """Check that the log has all records that the stream has read, whether or not this run reads them too.

    Raises:
        LogError: Records are lost, or a topic is compacted; names the epochs and offsets.
    """
    lost_records.check_none_lost(
        work.pipeline.name,
        work.client,
        EpochLog(work.target.version.uri).records(),
        work.accepted_losses,
        work.pipeline.window,
        turn=len(work.history.runs),
    )


def _stage_run(work: RunContext, scanned: Offsets) -> StagedRun:
    """Plan and stage the output, and check the contract."""
    window = work.pipeline.window
    if isinstance(window, Sessions):
        computed = windows.compute_sessions(work, window, work.new_offsets)
        stage_rows(work, computed.query)
        plan, incomplete, open_from = computed.plan, computed.incomplete, computed.open_from
        kept_rows = computed.retained
    else:
        plan, incomplete = plan_windows(work, window, work.new_offsets)
        stage_result(work, plan)
        open_from, kept_rows = None, read_uncomputed_rows(work, plan.computed) if work.anew else None
    work.check_reads()
    checks = plan.computed if isinstance(window, Sessions) else plan.compute
    results = publish.run_expectations(work.pipeline, work.connection, STAGED) if checks else ()
    return StagedRun(
        scanned=scanned, plan=plan, incomplete=incomplete, contract=results, open_from=open_from, retained=kept_rows
    )


@contextmanager
def open_run(  # noqa: PLR0913 -- a cut, a range, and on which runs it builds
    lake: PipelineLake,
    epoch: int | None,
    requested: tuple[Range, ...] | None,
    clock: Clock,
    *,
    anew: bool = False,
    confirmed: bool = False,
    settings_digest: str | None = None,
    patience: float = PATIENCE,
    meter: UsageMeter | None = None,
    begins_at: int | None = None,
) -> Iterator[RunContext]:
    """Open a run: take the lock, pin the cut, create the staging folder, and check that the log is that of the cut.

    With `settings_digest` the run builds only on runs that used these settings. `meter` measures its resource usage,
    by default from here on. With `begins_at` (microseconds) records with earlier log timestamps are not read.
    """
    settings, pipeline = lake.settings, lake.pipeline
    run_id, started, began = uuid.uuid4().hex, clock.now(), clock.monotonic()
    with (
        writer_lock(settings, pipeline.name, patience=patience),
        pin_cut(lake, epoch, holder=pins.name_batch_holder(run_id), clock=clock) as target,
        staging(queries.open_duckdb(queries.make_reader_limits(settings)), lake.version_uri(), run_id) as staged,
    ):
        if not anew:
            reject_foreign(lake)
        client = LogClient(settings)
        recorded_losses = losses.list_up_to(settings, target.version)
        log_id = target.record.cut.log
        trusted = batch_runs.open_recorded_table(lake) if anew else None
        if anew:
            earlier = IndexHistory(runs=(), next_sequence=batch_runs.read_next_run_sequence(lake))
        else:
            earlier = index.load_history(lake, log_id, recorded_losses, settings_digest=settings_digest)
        yield RunContext(
            lake=lake,
            target=target,
            client=client,
            replaces_earlier_runs=settings_digest is not None,
            held_ranges=_list_held(lake, trusted, anew=anew),
            recorded_table=None if trusted is None else trusted.table,
            earliest=first_retained(client, pipeline, target),
            history=select_reusable_history(client, earlier),
            accepted_losses=recorded_losses,
            lookups=BatchEnrichment(lake, target),
            staged=staged,
            run_id=run_id,
            anew=anew,
            is_confirmed=confirmed,
            requested=requested,
            started=started,
            began=began,
            meter=meter or UsageMeter(),
            first_offsets={} if begins_at is None else find_first_offsets(client, pipeline, target, begins_at),
        )


def _list_held(lake: PipelineLake, trusted: RecordedTable | None, *, anew: bool) -> tuple[Range, ...]:
    if anew:
        return () if trusted is None else trusted.held
    return tuple(batch_runs.list_held_ranges(batch_runs.read_effective_runs(lake)))


def find_first_offsets(client: LogClient, pipeline: Pipeline, target: BatchCut, at: int) -> dict[int, int]:
    """Find for each partition the first offset within the cut that can have a log timestamp at or after a time."""
    offsets_at_time, end = client.offsets_for_time(name_log(pipeline), at), target.record.end
    return {
        p: end_offset if (time_offset := offsets_at_time.get(p)) is None else min(time_offset, end_offset)
        for p, end_offset in end.items()
    }


def reject_foreign(lake: PipelineLake) -> None:
    """Check that no other writer changed rows of the batch tables; adopt files that were only rewritten.

    Rows of a run that was killed before it was recorded are removed: they were never served.

    Raises:
        LakeError: Names the table, the commit, and how to repair it.
    """
    otherwise = table_weights.ANEW.format(name=lake.name)
    for removed in table_weights.find_removed_batch(lake):
        raise LakeError(removed.message(otherwise), runbook=removed.runbook)
    runs = batch_runs.read_effective_runs(lake)
    for name in BATCH_TABLES:
        uri = lake.batch_uri(name)
        if not delta.exists(uri):
            continue
        table = delta.open_table(uri)
        table_change = table_weights.find_batch_change(table, name, runs)
        if table_change is not None and table_change.kind is Kind.FOREIGN:
            raise LakeError(table_change.message(otherwise), runbook=table_change.runbook)
        if table_change is not None and table_change.kind is Kind.HARMLESS:
            table_weights.adopt_rewritten_files(table, table_change)
        if table_change is not None and table_change.kind is Kind.UNFINISHED and name == "batch":
            roll_back_unfinished_run(table, table_change)


def first_retained(client: LogClient, pipeline: Pipeline, target: BatchCut) -> dict[int, int]:
    """Read the first retained offset of each partition, after checking the log against the cut.

    Raises:
        LogError: It is another log, holds other records than those that the stream read, or does not hold the cut.
    """
    topic = name_log(pipeline)
    check_same_topic(pipeline, target.record, client.describe(topic))
    earliest = client.earliest(topic)
    same_log.check_log_unchanged(pipeline.name, client, target.newest, same_log.recorded_history(target.version.uri))
    check_offsets(pipeline, target.record, earliest, client.high_watermarks(topic))
    return earliest


def select_reusable_history(client: LogClient, history: index.IndexHistory) -> index.IndexHistory:
    """Return the earlier runs if the log still holds the records that they read; otherwise none, so all is read again.

    A stream that starts over, or returns to an epoch before the log changed, reads the current log. So must batch.

    Raises:
        LogError: No broker answers.
    """
    newest = history.newest
    if newest is None or same_log.is_unchanged(client, newest):
        return history
    log.warning("batch_reads_again", run_id=newest.run_id, topic=newest.topic)
    return replace(history, runs=())


def make_requested_range(start: datetime | None, end: datetime | None) -> Range | None:
    """Make the requested range in microseconds; None if none is requested.

    Raises:
        DefinitionError: One end is missing, or the range is empty.
    """
    if start is None and end is None:
        return None
    if start is None or end is None or to_micros(start) >= to_micros(end):
        msg = f"Range of windows: expected a start before an end, got {start} and {end}."
        raise DefinitionError(msg + "\nHint: give both `--from` and `--to`.")
    return to_micros(start), to_micros(end)


FOLDER = "audits"


@contextmanager
def recompute_apart(lake: PipelineLake, windows: Sequence[Range], clock: Clock) -> Iterator[Settings]:
    """Compute closed windows up to the newest epoch, and yield settings under which the batch tables hold them alone.

    A record of a window bears a log timestamp of at least its start minus `max_ahead`, or it is none of the window: so
    nothing before that is read. The tables are deleted afterwards.

    Args:
        lake: A pipeline with aligned windows.
        windows: `[start, end)` in microseconds, one or more.
        clock: For the run's times.

    Raises:
        CutoverError: As of a batch run.
    """
    spark.make_spark_conf(lake.settings)
    uri = f"{lake.version_uri()}/{FOLDER}/{uuid.uuid4().hex}"
    apart = lake.settings.with_batch_tables(uri)
    begins_at = min(start for start, _ in windows) - lake.pipeline.lateness.max_ahead_micros
    opened = open_run(PipelineLake(apart, lake.pipeline), None, tuple(windows), clock, anew=True, begins_at=begins_at)
    try:
        with opened as work:
            completed = compute_and_publish(work, probes.silent, clock)
        try:
            yield apart
        finally:
            version = versions.find_current_version(lake)
            if version is not None:
                holder = pins.name_batch_holder(completed.run_id)
                pins.release_pin(lake.settings, version, completed.epoch, holder=holder, now=clock.now())
    finally:
        _remove(uri)


def _remove(uri: str) -> None:
    system, path = fs.FileSystem.from_uri(uri)
    if system.get_file_info(path).type is fs.FileType.Directory:
        system.delete_dir(path)
