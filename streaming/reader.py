"""Reading the log: one query after another, until the stream is stopped or at its cut. An outage ends none for good."""

import contextlib
import shutil
import time
from typing import TYPE_CHECKING

from cutover.engine import spark
from cutover.errors import CutoverError, LakeError, LogError
from cutover.events import log
from cutover.lake.integrity import same_log
from cutover.streaming.microbatch.engine import MicrobatchEngine
from cutover.streaming.process import driver_metrics
from cutover.streaming.process.context import DriverContext
from cutover.streaming.process.health import find_cause
from cutover.streaming.source import query, start_offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

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
