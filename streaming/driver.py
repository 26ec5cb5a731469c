"""One driver: checks, query, heartbeat, OpenLineage events, and an end that says why, with an exit code.

It reads the log by one query after another, until the stream is stopped or at its cut. An outage ends none for good.
"""

import contextlib
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cutover import files
from cutover.clock import Clock, Probe, SystemClock, silent
from cutover.engine import spark
from cutover.errors import CutoverError, DefinitionError, LakeError, LogError
from cutover.events import log
from cutover.lake.control import losses, versions
from cutover.lake.dimensions import dimension
from cutover.lake.integrity import same_log
from cutover.lake.recorded_definitions import record_definition
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import epoch_log_schema
from cutover.lineage.runs import LineageRun, RunDatasets, State, decide_end_state, is_enabled
from cutover.log.cut import Cut
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import name_log, name_offsets
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from cutover.streaming.follow import follower
from cutover.streaming.microbatch.engine import MicrobatchEngine
from cutover.streaming.process import driver_metrics
from cutover.streaming.process.context import DriverContext, find_cause, one_line
from cutover.streaming.process.heartbeat import HeartbeatWriter, find_heartbeat, first_beat, only_driver, run_folder
from cutover.streaming.recovery import fork
from cutover.streaming.sink.committer import Committer, new_run_id, open_checked
from cutover.streaming.source import query, start_offsets
from cutover.timestamps import format_micros

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class DriverLineage:
    """Emits the events of one driver. The end is emitted last, after heartbeat and log: a listener may be slow."""

    def __init__(self, settings: Settings, pipeline: str) -> None:
        self._settings = settings
        self._context: DriverContext | None = None
        self._run = LineageRun(settings, pipeline, "stream")
        self._run.emit("START")

    @contextmanager
    def telling(self, context: DriverContext) -> Iterator[None]:
        """Emit progress periodically while the block runs."""
        self._context = context
        if not is_enabled(self._settings):
            yield
            return
        ended = threading.Event()

        def report_progress() -> None:
            while not ended.wait(self._settings.lineage.every_seconds):
                self._run.emit("RUNNING", self._find_touched)

        threading.Thread(target=report_progress, name="lineage-clock", daemon=True).start()
        try:
            yield
        finally:
            ended.set()

    def end(self, code: int) -> None:
        """Emit the end of a driver that finished, or that was stopped before its cut."""
        self._end("COMPLETE" if code == 0 else "ABORT")

    def fail(self, error: BaseException) -> None:
        """Emit the failure that ended it."""
        self._end(decide_end_state(error))

    def _end(self, state: State) -> None:
        self._run.emit(state, self._find_touched)

    def _find_touched(self) -> RunDatasets:
        """Return the offsets that this driver has committed, and its table; nothing before its own first epoch."""
        from cutover.lineage import datasets  # noqa: PLC0415 -- its client takes a second to load

        context = self._context
        newest = None if context is None else context.metrics.newest
        if context is None or newest is None or newest.run_id != context.beat.now.run_id:
            return RunDatasets()
        start, settings = context.start, self._settings
        read = {p: (start.offsets.get(p), end) for p, end in newest.end.items()}
        inputs = datasets.make_input_topics(settings, newest.topic, newest.topic_id, newest.cluster_id, read)
        outputs = (datasets.make_output_table(start.table, None),)
        facets = {"runId": newest.run_id, "epoch": newest.epoch}
        return RunDatasets(inputs=tuple(inputs), outputs=outputs, facets=facets)


INTERRUPTED = 130
Until = Literal["forever", "drain", "final"]


def run_driver(
    lake: PipelineLake,
    *,
    until: Until = "forever",
    aim: Cut | None = None,
    clock: Clock | None = None,
    probe: Probe = silent,
) -> int:
    """Drive a pipeline's stream until a stop is requested or a cut is reached.

    Args:
        lake: Pipeline to drive; its settings select the version of the stream.
        until: `forever`: a stop file or SIGTERM ends it. `drain`: it stops at the current ends of the log and
            leaves time as it is. `final`: like drain; then it closes all windows seen so far and seals the version.
        aim: Where a drain stops; None: at the log's ends.
        clock: Time; a test can pass another clock.
        probe: Called at named points.

    Returns:
        0: it reached the cut, or was stopped where there is none to reach. 130: it was stopped before it
        reached its cut; another driver continues from there.

    Raises:
        DefinitionError: The pipeline follows a job, whose windows cannot be closed by `final`.
        CutoverError: It cannot start or continue; the heartbeat says FAILED with the same message.
    """
    settings, pipeline = lake.settings, lake.pipeline
    if pipeline.stream is not None and until == "final":
        msg = f"Stream of {pipeline.name}: expected Cutover's own path; when the windows of a followed job close, its "
        msg += f"watermarks decide.\nHint: `cutover follow {pipeline.name} --drain` repeats what it has committed."
        raise DefinitionError(msg)
    clock, place = clock or SystemClock(), run_folder(settings, pipeline.name)
    with only_driver(place, pipeline.name):
        (place / "stop").unlink(missing_ok=True)
        beat, lineage = _start_heartbeat(lake, place, clock), DriverLineage(settings, pipeline.name)
        try:
            context = DriverContext(
                lake=lake,
                client=LogClient(settings),
                clock=clock,
                probe=probe,
                beat=beat,
                place=place,
            )
            with driver_metrics.serve_metrics(settings, pipeline.name, context.metrics), lineage.telling(context):
                code = 0 if _drive(context, until, aim) else INTERRUPTED
        except BaseException as error:
            _fail(pipeline.name, beat, error)
            lineage.fail(error)
            raise
        beat.end(state="STOPPED", exit_code=code)
        lineage.end(code)
    log.info("stream_stopped", pipeline=pipeline.name, epoch=beat.now.epoch, early=code != 0)
    return code


def _start_heartbeat(lake: PipelineLake, place: Path, clock: Clock) -> HeartbeatWriter:
    """Say who drives, and begin to beat; since when a followed job is silent, the driver before has seen."""
    settings, previous = lake.settings, find_heartbeat(lake.settings, lake.name)
    unread_since = None if previous is None else previous.job_unread_since
    heartbeat = replace(first_beat(new_run_id(), clock), job_unread_since=unread_since)
    beat = HeartbeatWriter(place / "heartbeat.json", heartbeat, seconds=settings.stream.heartbeat_seconds, clock=clock)
    try:
        files.write_json(place / "driver.json", {**asdict(heartbeat.identity), "run_id": heartbeat.run_id})
        beat.start()
    except OSError as error:
        msg = f"Driver's folder `{place}`: expected a place that can be written, got: {error.strerror or error}."
        raise LakeError(
            msg + "\nHint: nothing was read; make room and start again.", runbook="DiskHeadroomLow"
        ) from error
    return beat


def _drive(context: DriverContext, until: Until, aim: Cut | None) -> bool:
    """Return whether it came to where it was to stop; a wish to stop may be earlier than the cut of a drain."""
    with _signals(context.stopping):
        committer, beginning = prepare_stream(context)
        if start_offsets.is_sealed(context.pipeline, beginning.record, is_repeated=until == "final"):
            return True
        if context.pipeline.stream is not None:
            engine = follower.open_follower(context, committer, beginning)
            has_followed_all = follower.follow_job(context, engine, drain=until == "drain", aim=aim)
            return until == "forever" or has_followed_all
        stream = MicrobatchEngine(context, committer, beginning)
        if until != "forever":
            latest = context.client.latest(name_log(context.pipeline), context.pipeline.source.isolation)
            stream.limit = latest if aim is None else start_offsets.check_aim(context.pipeline, beginning, aim, latest)
        if not stream.drained:
            run_queries(context, stream)
        if until != "forever" and stream.drained:
            stream.finish(final=until == "final")
        return until == "forever" or stream.drained


def prepare_stream(context: DriverContext) -> tuple[Committer, start_offsets.StartOffsets]:
    """Check settings, table and log, and only then make what is not there yet."""
    lake, settings = context.lake, context.lake.settings
    context.beat.update(losses_seen=losses.read_next_loss_sequence(settings, context.pipeline.name))
    start_offsets.reject_unsafe(lake)
    dimension.check_dimensions(lake)
    start_spark(context)
    version = versions.find_current_version(lake)
    if version is not None:
        fork.copy_source_rows(lake, version)
    table, record = (None, None) if version is None else open_checked(lake, version)
    accepted = () if version is None else losses.list_of_version(settings, version)
    read_history = tuple if version is None else same_log.recorded_history(version.uri)
    beginning = start_offsets.find_start(context.pipeline, context.client, record, accepted, read_history)
    schema = epoch_log_schema(context.pipeline)
    version = versions.open_or_create(lake, context.clock)
    if settings.stream_version is None:  # not that of a replay, which serves nothing
        record_definition(lake, context.clock)
    table = table or delta.ensure(version.uri, schema, partition_by=["_kind"], configuration=delta.SHORT_LOG)
    # The handle that was checked is the one that commits: a fresh one would accept what another driver has done.
    committer = Committer(
        version, context.beat.now.run_id, table, reload_every=settings.stream.reload_every, accepted=accepted
    )
    context.start.table, context.start.offsets = version.uri, dict(beginning.offsets)
    context.probe("start.read", -1 if record is None else record.epoch)
    _announce(context, beginning)
    return committer, beginning


def _announce(context: DriverContext, beginning: start_offsets.StartOffsets) -> None:
    if beginning.record is None:
        log.info("stream_begins", pipeline=context.pipeline.name, offsets=name_offsets(beginning.offsets))
        return
    newest = beginning.record
    context.metrics.note_start(newest)
    context.beat.update(epoch=newest.epoch, watermark=format_micros(newest.watermark_after))
    sentence = f"epoch {newest.epoch} committed, resumed at {newest.epoch + 1}"
    log.info(
        "epoch_resumed", pipeline=context.pipeline.name, sentence=sentence, offsets=name_offsets(beginning.offsets)
    )


def _fail(name: str, beat: HeartbeatWriter, error: BaseException) -> None:
    if isinstance(error, KeyboardInterrupt):
        beat.end(state="STOPPED", exit_code=INTERRUPTED)
        return
    runbook = error.runbook if isinstance(error, CutoverError) else None
    text = one_line(error)
    log.error("stream_failed", pipeline=name, error=text, runbook=runbook)
    code = CutoverError.exit_code if isinstance(error, CutoverError) else 1
    beat.end(state="FAILED", error=text, runbook=runbook, exit_code=code)


@contextmanager
def _signals(stopping: threading.Event) -> Iterator[None]:
    """Turn SIGTERM into a wish to stop; only a main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous_handler = signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous_handler)


STOP_PATIENCE_SECONDS = 60.0
"""Time that the current epoch may take after a stop was requested."""

SILENT_PATIENCE_SECONDS = 5.0
"""The same while no broker answers: what it waits for may never come."""


def start_spark(context: DriverContext) -> None:
    """Start Spark in parallel with checking table and log: it takes longer than they do."""
    spark.start_early(context.lake.settings, app=_app(context))


def run_queries(context: DriverContext, stream: MicrobatchEngine) -> None:
    """Run queries until the stream is stopped or has reached its cut.

    A query that ends because no broker answers is followed by another one as soon as one does, from the offsets of the
    newest epoch.

    Raises:
        CutoverError: The query failed for another reason; says which.
    """
    session = spark.session(context.lake.settings, app=_app(context))
    while not (context.stopping.is_set() or stream.drained):
        query_source = query.QuerySource(
            pipeline=context.pipeline, offsets=stream.position, checkpoint=stream.checkpoint
        )
        stream.recorder.begin_query(session)
        running = query.start(session, context.lake.settings, query_source, stream.process_batch)
        end_error = _run(context, stream, running, session)
        if end_error is None:
            return
        if end_error.runbook != "KafkaUnreachable":
            raise end_error from end_error.__cause__
        log.warning("kafka_unreachable", pipeline=context.pipeline.name, waiting_before="query")
        _await_broker(context, stream)


def _app(context: DriverContext) -> str:
    return f"cutover-{context.pipeline.name}"


def _run(
    context: DriverContext, stream: MicrobatchEngine, running: "StreamingQuery", session: "SparkSession"
) -> CutoverError | None:
    """Run one query to its end and return its error; None if a stop was requested."""
    cutover_error: CutoverError | None = None
    try:
        failure = _await_failure(context, stream, running)
        if failure is not None:
            is_jvm_gone = query.jvm_gone(session)
            if is_jvm_gone and context.stopping.is_set():  # a signal to the whole process group
                log.info("stopped_with_jvm", pipeline=context.pipeline.name)
                stream.failure = None
                return None
            cutover_error = find_cause(failure, context, stream.committer, jvm_gone=is_jvm_gone)
            cutover_error.__cause__ = None if cutover_error is failure else failure
    finally:
        _halt(
            context,
            stream,
            running,
            session,
            will_go_on=cutover_error is not None and cutover_error.runbook == "KafkaUnreachable",
        )
    # An error while waiting for the last epoch is reported too: another driver may have been faster.
    return cutover_error or (stream.failure if isinstance(stream.failure, CutoverError) else None)


def _await_failure(context: DriverContext, stream: MicrobatchEngine, running: "StreamingQuery") -> BaseException | None:
    """Watch a query; return what it failed by, if it did."""
    try:
        _watch(context, stream, running)
    except Exception as error:  # noqa: BLE001 -- explained by the caller
        return error
    return stream.failure


def _watch(context: DriverContext, stream: MicrobatchEngine, running: "StreamingQuery") -> None:
    context.beat.update(state="RUNNING")
    pace: driver_metrics.Pace = "RUNNING"
    while stream.failure is None and not (context.stopping.is_set() or stream.drained):
        if not running.isActive:
            raise running.exception() or LakeError(f"Stream of {context.pipeline.name}: Spark ended the query.")
        _poll(context, stream)
        pace = driver_metrics.next_pace(pace, lag=stream.lag, cap=context.pipeline.max_rows_per_epoch)
        context.beat.update(state=pace, lag=stream.lag)
        context.metrics.note_look(pace, stream.continuity.high, stream.position)
        _poll_stop_file(context)
        _await_next_poll(context, stream)


def _await_next_poll(context: DriverContext, stream: MicrobatchEngine) -> None:
    """Wait for a trigger's time, or until there is an end to see to.

    An epoch alone is no reason to read the ends: it has read the log, and a reading makes the broker read partitions.
    """
    due = time.monotonic() + max(0.1, context.lake.settings.stream.trigger_seconds)
    while (remaining := due - time.monotonic()) > 0:
        if stream.failure is not None or context.stopping.is_set() or stream.drained:
            return
        stream.wake.wait(remaining)
        stream.wake.clear()


def _poll_stop_file(context: DriverContext) -> None:
    if (context.place / "stop").exists():
        context.stopping.set()


def _poll(context: DriverContext, stream: MicrobatchEngine) -> None:
    try:
        stream.poll()
    except LogError as error:
        if error.runbook != "KafkaUnreachable":
            raise
        stream.health.note_silence()
        log.warning("kafka_unreachable", pipeline=context.pipeline.name, waiting_before="look")


def _await_broker(context: DriverContext, stream: MicrobatchEngine) -> None:
    """Wait until the log answers and is the one that the table was built from, or until a stop is requested.

    Raises:
        CutoverError: It is not.
    """
    stream.failure, ours = None, stream.committer
    while not context.stopping.is_set():
        stream.health.note_silence()
        _poll_stop_file(context)
        try:
            history = same_log.recorded_history(ours.version.uri)
            start = start_offsets.find_start(context.pipeline, context.client, ours.newest, ours.accepted, history)
        except LogError as error:
            if error.runbook != "KafkaUnreachable":
                raise
            context.stopping.wait(1.0)
        else:
            stream.health.note_answer()
            stream.position = dict(start.offsets)
            return


def _halt(
    context: DriverContext,
    stream: MicrobatchEngine,
    running: "StreamingQuery",
    session: "SparkSession",
    *,
    will_go_on: bool,
) -> None:
    """Let the epoch in hand finish, then end the query; an epoch that does not finish is left to the next driver."""
    if not will_go_on:
        context.stopping.set()
        context.beat.update(state="STOPPING")
    patience = SILENT_PATIENCE_SECONDS if stream.health.is_silent else STOP_PATIENCE_SECONDS
    if stream.lock.acquire(timeout=patience):
        stream.lock.release()
    else:
        log.warning("epoch_abandoned", pipeline=context.pipeline.name, patience=patience)
        session.sparkContext.cancelAllJobs()
    with contextlib.suppress(Exception):  # a JVM that died has no query to stop
        running.stop()
    shutil.rmtree(stream.checkpoint, ignore_errors=True)
