"""Recorded step with which a stream continues after a loss: preview it, and record it once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import duckdb
from deltalake import DeltaTable

from cutover.changes import check_reason, user
from cutover.clock import Clock
from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries, spark
from cutover.errors import CutoverError, LakeError, LogError
from cutover.events import log
from cutover.lake.control import losses, versions
from cutover.lake.control.losses import Starts
from cutover.lake.control.versions import Version
from cutover.lake.epochs import delivery
from cutover.lake.epochs.delivery import compute_next_epoch
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.integrity import complete_read, lost_records, same_log
from cutover.lake.integrity.complete_read import ReadLog
from cutover.lake.integrity.same_log import History
from cutover.lake.journal_rows import Loss, LossKind
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import COUNTED, epoch_log_schema
from cutover.log.kafka import LogClient
from cutover.log.record_batches import MissingRecords, format_missing
from cutover.log.topic_partitions import format_partition_number, name_log, split_topics
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from cutover.streaming.process.heartbeat import only_driver, run_folder
from cutover.streaming.recovery import loss_extent
from cutover.streaming.recovery.loss_extent import IncompleteRange, LogState, LossExtent, RewrittenLog
from cutover.streaming.sink import committer
from cutover.streaming.source import start_offsets
from cutover.timestamps import to_micros

_BROKEN = frozenset({"EpochHistoryBroken", "ForeignWrite", "TableUnreadable"})
_ACCEPTABLE = _BROKEN | {"LogDataLost", "TopicIdentityChanged"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LossAcceptance:
    """Losses to record, and the version that continues after them."""

    pipeline: str
    trouble: str  # why the stream stopped, one sentence
    runbook: str
    kind: LossKind
    version: int  # the version that continues
    losses: tuple[Loss, ...]
    turn: int  # sequence of the table of losses when this was decided
    is_recorded: bool = False  # an earlier step recorded the rows and was cut off before it opened the version


def preview_losses(lake: PipelineLake, clock: Clock) -> LossAcceptance:
    """Return the step that `accept` would record now.

    Raises:
        LogError: There is nothing to accept: table and log hold the next offsets, or there is no log to continue with.
    """
    return _decide(lake, reason="", clock=clock)


def record_losses(lake: PipelineLake, reason: str, clock: Clock) -> LossAcceptance:
    """Record the losses, and register the version that continues if it is new. No driver may be running.

    Raises:
        DefinitionError: `reason` is empty or too long.
        LakeError: A driver of this installation is running, or another step was recorded meanwhile. Nothing was
            written.
        LogError: As for `preview`.
    """
    pipeline = lake.pipeline
    given_reason = check_reason(reason, of="`cutover accept-loss`")
    with only_driver(run_folder(lake.settings, pipeline.name), pipeline.name):
        step = _decide(lake, reason=given_reason, clock=clock)
        sequence = versions.read_next_version_sequence(lake)
        # The rows come first: a version registered without them would start as if nothing were lost.
        recorded_losses = (
            step.losses if step.is_recorded else losses.record(lake.settings, step.losses, expected_sequence=step.turn)
        )
        if step.kind == "anew":
            version = versions.register(lake, clock, expected_sequence=sequence)
            # Until its first epoch readers see what the version before served of the lost windows.
            schema = epoch_log_schema(pipeline)
            delta.ensure(version.uri, schema, partition_by=["_kind"], configuration=delta.SHORT_LOG)
    lost_ranges = {format_partition_number(loss.partition): [loss.first, loss.next] for loss in recorded_losses}
    log.warning("loss_accepted", pipeline=pipeline.name, kind=step.kind, version=step.version, offsets=lost_ranges)
    return replace(step, losses=recorded_losses)


def _decide(lake: PipelineLake, *, reason: str, clock: Clock) -> LossAcceptance:
    turn = losses.read_next_loss_sequence(lake.settings, lake.name)
    version = versions.find_current_version(lake)
    if version is None:
        raise _make_nothing_error(lake.pipeline, "no stream has begun under this definition")
    case = _case(lake, version, clock)
    kind, extents = _judge_case(case)
    number = versions.read_next_version_number(lake) if kind == "anew" else version.number
    epoch = 0 if kind == "anew" else compute_next_epoch(case.record)
    half = [loss for loss in losses.list_losses(lake) if kind == "anew" and loss.stream_version == number]
    return LossAcceptance(
        pipeline=lake.name,
        trouble=str(case.trouble).splitlines()[0],
        runbook=str(case.trouble.runbook),
        kind=kind,
        version=number,
        losses=tuple(half) or tuple(_row(case, kind, (number, epoch), extent, reason) for extent in extents),
        turn=turn,
        is_recorded=bool(half),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A stream that cannot continue, and the current state of its log."""

    pipeline: Pipeline
    version: Version
    record: EpochRecord | None  # newest epoch, as far as the table can be read; None: none is known
    accepted: tuple[Loss, ...]
    trouble: CutoverError
    log: LogState
    at: datetime
    rewritten: RewrittenLog
    incomplete: tuple[IncompleteRange, ...] = ()  # what the log lacks between its first and its last offset

    @property
    def is_broken(self) -> bool:
        """Return whether the stream stopped because of its table."""
        return self.trouble.runbook in _BROKEN


def _case(lake: PipelineLake, version: Version, clock: Clock) -> _Case:
    pipeline = lake.pipeline
    accepted = losses.list_of_version(lake.settings, version)
    record, broken = _newest(lake, version)
    client = LogClient(lake.settings)
    history = same_log.recorded_history(version.uri)
    trouble = broken or _refusal(pipeline, client, record, accepted, history)
    missing: tuple[MissingRecords, ...] = ()
    if trouble is None:
        missing = _find_missing(lake, client, version)
        trouble = _explain_missing(pipeline, missing)
    if trouble is None:
        raise _make_nothing_error(pipeline, f"table and log hold what comes next, epoch {compute_next_epoch(record)}")
    at, log_now = clock.now(), _log_now(pipeline, client, trouble, clock.now())
    return _Case(
        pipeline=pipeline,
        version=version,
        record=record,
        accepted=accepted,
        trouble=trouble,
        log=log_now,
        at=at,
        rewritten=_find_rewritten(pipeline, client, version, log_now, None if broken else record),
        incomplete=_find_incomplete(pipeline, client, version, missing, log_now.now),
    )


def _find_missing(lake: PipelineLake, client: LogClient, version: Version) -> tuple[MissingRecords, ...]:
    """Return the records missing between the log's first and last offset that no loss and no epoch explains.

    Records are counted first; Spark's JVM is started to read the headers only if there are fewer than offsets.
    """
    pipeline = lake.pipeline
    topic, isolation = name_log(pipeline), pipeline.source.isolation
    earliest, latest = client.earliest(topic), client.latest(topic, isolation)
    held_ranges = {p: (start, latest[p]) for p, start in earliest.items() if start < latest.get(p, 0)}
    if sum(1 for _ in client.positions(topic, held_ranges, isolation)) == complete_read.count_offsets((held_ranges,)):
        return ()
    session = spark.session(lake.settings, app=f"cutover accept-loss {pipeline.name}")
    log_id = client.describe(topic)
    log_read = ReadLog(lake=lake, version=version, client=client, log_id=log_id)
    return complete_read.find_unexplained(session, log_read, (held_ranges,))


def _find_incomplete(
    pipeline: Pipeline, client: LogClient, version: Version, missing: Sequence[MissingRecords], now: int
) -> tuple[IncompleteRange, ...]:
    """Return one range per partition that lacks records, with the bounds of their event times."""
    topic, latest, gaps_by_partition = (
        name_log(pipeline),
        client.latest(name_log(pipeline), pipeline.source.isolation),
        [],
    )
    for partition in sorted({gap.partition for gap in missing}):
        gaps = [gap for gap in missing if gap.partition == partition]
        gap_start, gap_end = gaps[0].first_offset, gaps[-1].next_offset
        next_record = next(client.read_range(topic, partition, gap_end, latest[partition]), None)
        epochs = _list_epochs_since(version, partition, gap_start)
        windows = _windows_since(pipeline, EpochLog(version.uri), epochs[0].epoch) if epochs else None
        gaps_by_partition.append(
            IncompleteRange(
                partition=partition,
                first=gap_start,
                next=gap_end,
                log_time=now if next_record is None else next_record.log_time_micros,
                fed_from=None if windows is None else windows[0],
            )
        )
    return tuple(gaps_by_partition)


def _list_epochs_since(version: Version, partition: int, offset: int) -> list[EpochRecord]:
    """Return the epochs that read a partition at or after an offset."""
    records = EpochLog(version.uri).records() if delta.exists(version.uri) else []
    return [record for record in records if record.end.get(partition, 0) > offset]


def _explain_missing(pipeline: Pipeline, missing: Sequence[MissingRecords]) -> LogError | None:
    """Return the error that describes missing records; None if nothing is missing."""
    if not missing:
        return None
    return lost_records.make_lost_error(pipeline.name, format_missing(name_log(pipeline), missing))


def _newest(lake: PipelineLake, version: Version) -> tuple[EpochRecord | None, LakeError | None]:
    """Return the newest epoch's record and the table's error, if any file of the table cannot be read."""
    try:
        table, record = committer.open_checked(lake, version)
        if table is not None:
            _read_whole(lake.settings, table)
    except LakeError as error:
        if error.runbook not in _BROKEN:
            raise
        return _find_newest_record(version), error
    return record, None


def _read_whole(settings: Settings, table: DeltaTable) -> None:
    connection = queries.open_duckdb(queries.make_reader_limits(settings))
    try:
        delta.bind(connection, "rows", table)
        connection.execute("SELECT bit_xor(hash(r)) FROM rows AS r").fetchall()
    except duckdb.Error as error:
        msg = f"Table `{table.table_uri}`: expected files that can be read, got: {str(error).splitlines()[0]}."
        raise LakeError(msg, runbook="TableUnreadable") from error


def _find_newest_record(version: Version) -> EpochRecord | None:
    """Return the newest readable record of a broken table: it names the log that was read."""
    try:
        return EpochLog(version.uri).newest()
    except (LakeError, duckdb.Error):
        return None


def _find_rewritten(
    pipeline: Pipeline, client: LogClient, version: Version, now: LogState, record: EpochRecord | None
) -> RewrittenLog:
    """Find the records of a log that changed after they were read; none if no table shows the records as read."""
    if record is None or record.topic_id != now.topic_id:
        return RewrittenLog()
    log_changes = same_log.find_rewritten_partitions(client, record, same_log.recorded_history(version.uri))
    if not log_changes:
        return RewrittenLog()
    epochs = EpochLog(version.uri)
    first_epoch = min(
        epoch_record.epoch
        for epoch_record in epochs.records()
        for change in log_changes
        if epoch_record.end.get(change.partition, 0) > change.first
    )
    return RewrittenLog(changes=log_changes, windows=_windows_since(pipeline, epochs, first_epoch))


def _windows_since(pipeline: Pipeline, epochs: EpochLog, first_epoch: int) -> Starts | None:
    """Return the windows of all rows since an epoch, by start; a fold across it can only add windows."""
    connection = queries.open_duckdb()
    delta.bind(connection, "rows", epochs.table, kinds=COUNTED)
    query = """
        SELECT epoch_us(min(window_start)), epoch_us(max(window_start)), epoch_us(max(window_end)) FROM rows
        WHERE _epoch >= ?
    """
    with delta.naming(epochs.table):
        row = connection.execute(query, [first_epoch]).fetchone()
    if row is None or row[0] is None:
        return None
    return row[0], row[2] if pipeline.window.merges else pipeline.window.end_of_starts(row[1])


def _refusal(
    pipeline: Pipeline, client: LogClient, record: EpochRecord | None, accepted: Sequence[Loss], history: History
) -> LogError | None:
    """Return the error that a start from the log would raise; None if it would start."""
    try:
        start_offsets.find_start(pipeline, client, record, accepted, history)
    except LogError as error:
        return error
    return None


def _log_now(pipeline: Pipeline, client: LogClient, trouble: CutoverError, at: datetime) -> LogState:
    """Return the log with which the stream would continue.

    Raises:
        CutoverError: The stream's error, if it cannot be resolved by recording a loss.
    """
    topic = name_log(pipeline)
    if trouble.runbook not in _ACCEPTABLE or not set(split_topics(topic)) <= set(client.topics()):
        raise trouble
    earliest, latest = client.earliest(topic), client.latest(topic, pipeline.source.isolation)
    firsts = {p: next(client.read_range(topic, p, earliest[p], latest[p]), None) for p in earliest}
    return LogState(
        topic_id=client.topic_id(topic),
        earliest=earliest,
        latest=latest,
        first_times={p: log_record.log_time_micros for p, log_record in firsts.items() if log_record is not None},
        now=max([to_micros(at), *client.newest_times(topic).values()]),  # this host's clock may be behind
    )


def _judge_case(case: _Case) -> tuple[LossKind, tuple[LossExtent, ...]]:
    """Decide between continuing the version and starting a new one; return the kind and the losses.

    Raises:
        CutoverError: The stream's error, if it cannot be resolved by recording a loss.
    """
    pipeline, log = case.pipeline, case.log
    expected = start_offsets.find_expected_log(case.record, case.accepted)
    if expected not in {None, log.topic_id}:
        _reject_one_changed_topic(pipeline)
        unread = delivery.next_offsets(case.record, case.accepted, str(expected)) or dict.fromkeys(log.earliest, 0)
        newest = None if case.record is None else max(case.record.max_event.values(), default=None)
        return "anew", loss_extent.compute_losses_of_new_log(pipeline, str(expected), unread, newest, log)
    next_wanted = delivery.next_offsets(case.record, case.accepted, log.topic_id)
    begin_offsets = {} if next_wanted is None else dict.fromkeys(log.earliest, 0) | next_wanted
    missing = delivery.find_offset_gaps(begin_offsets, earliest=log.earliest, latest=log.latest)
    if case.is_broken or case.rewritten.changes or any(hole.is_short for hole in missing):
        return "anew", loss_extent.compute_losses_without_table(pipeline, missing, log, case.rewritten)
    if case.incomplete:
        return "inside", loss_extent.compute_inner_losses(pipeline, case.record, case.incomplete, log.topic_id)
    if not missing:
        raise case.trouble
    if case.record is not None and case.record.final:
        raise _make_nothing_error(pipeline, f"stream-{case.version.number} is sealed and reads no further")
    return "gap", loss_extent.compute_gap_losses(pipeline, case.record, missing, log)


def _reject_one_changed_topic(pipeline: Pipeline) -> None:
    """Check that the log has one topic: if one of two was recreated, the records of the other are not lost.

    Raises:
        LogError: The pipeline reads two topics.
    """
    topics = split_topics(name_log(pipeline))
    if len(topics) > 1:
        msg = f"Stream of {pipeline.name}: expected a log of one topic, got {' and '.join(topics)}, of which one was "
        msg += "recreated: the offsets of both cannot be accepted in one step.\nHint: give the new topic another name."
        raise LogError(msg, runbook="TopicIdentityChanged")


def _row(case: _Case, kind: LossKind, onward: tuple[int, int], loss_extent: LossExtent, reason: str) -> Loss:
    start, end = loss_extent.windows or (None, None)
    return Loss(
        pipeline=case.pipeline.name,
        result_fingerprint=case.version.result_fingerprint,
        stream_version=onward[0],
        epoch=onward[1],
        kind=kind,
        topic=name_log(case.pipeline),
        topic_id=loss_extent.topic_id,
        partition=loss_extent.partition,
        first=loss_extent.first,
        next=loss_extent.next,
        onward_topic_id=case.log.topic_id,
        windows_from=start,
        windows_to=end,
        who=user(),
        why=reason,
        at=case.at,
        again=loss_extent.is_reassigned,
    )


def _make_nothing_error(pipeline: Pipeline, actual: str) -> LogError:
    msg = f"Stream of {pipeline.name}: expected a loss to accept, got none: {actual}."
    return LogError(msg + f"\nHint: `cutover stream {pipeline.name}` continues; nothing was recorded.")
