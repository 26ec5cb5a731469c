"""Reading the log: one query after another, until the stream is stopped or at its cut. An outage ends none for good."""

import contextlib
import shutil
import time
from typing import TYPE_CHECKING

from cutover.engine import spark
from cutover.errors import CutoverError, LakeError, LogError
from cutover.events import log
from cutover.lake.integrity import same_log
from streaming.microbatch.engine import MicrobatchEngine
from streaming.process import backpressure
from streaming.process.context import DriverContext
from streaming.process.failure import explain
from streaming.source import query, start_offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

STOP_PATIENCE_SECONDS = 60.0
"""How long an epoch in hand may take once the driver was asked to stop."""

SILENT_PATIENCE_SECONDS = 5.0
"""The same while no broker answers: what it waits for may never come."""


def prepare(rim: DriverContext) -> None:
    """Let Spark start while table and log are looked at: it takes longer than they do."""
    spark.start_early(rim.settings, app=_app(rim))


def read(rim: DriverContext, stream: MicrobatchEngine) -> None:
    """Run queries until the stream is stopped or has reached its cut.

    A query that ends because no broker answers is followed by another one as soon as one does, from the offsets of the
    newest epoch.

    Raises:
        CutoverError: The query failed for another reason; says which.
    """
    session = spark.session(rim.settings, app=_app(rim))
    while not (rim.stopping.is_set() or stream.drained):
        wanted = query.QuerySource(pipeline=rim.pipeline, offsets=stream.position, checkpoint=stream.checkpoint)
        stream.begin_query(session)
        running = query.start(session, rim.settings, wanted, stream.each)
        why = _run(rim, stream, running, session)
        if why is None:
            return
        if why.runbook != "KafkaUnreachable":
            raise why from why.__cause__
        log.warning("kafka_unreachable", pipeline=rim.pipeline.name, waiting_before="query")
        _await_broker(rim, stream)


def _app(rim: DriverContext) -> str:
    return f"cutover-{rim.pipeline.name}"


def _run(
    rim: DriverContext, stream: MicrobatchEngine, running: "StreamingQuery", session: "SparkSession"
) -> CutoverError | None:
    """Run one query to its end and return why it failed; None if it was asked to end."""
    why: CutoverError | None = None
    try:
        failure = _watched(rim, stream, running)
        if failure is not None:
            why = explain(failure, rim, stream.committer, jvm_gone=query.jvm_gone(session))
            why.__cause__ = None if why is failure else failure
    finally:
        _halt(rim, stream, running, session, will_go_on=why is not None and why.runbook == "KafkaUnreachable")
    # What ends while we wait for the last epoch is told too: another driver may have been faster.
    return why or (stream.failure if isinstance(stream.failure, CutoverError) else None)


def _watched(rim: DriverContext, stream: MicrobatchEngine, running: "StreamingQuery") -> BaseException | None:
    """Watch a query; return what it failed by, if it did."""
    try:
        _watch(rim, stream, running)
    except Exception as error:  # noqa: BLE001 -- explained by the caller
        return error
    return stream.failure


def _watch(rim: DriverContext, stream: MicrobatchEngine, running: "StreamingQuery") -> None:
    rim.beat.say(state="RUNNING")
    pace: backpressure.Pace = "RUNNING"
    while stream.failure is None and not (rim.stopping.is_set() or stream.drained):
        if not running.isActive:
            raise running.exception() or LakeError(f"Stream of {rim.pipeline.name}: Spark ended the query.")
        _look(rim, stream)
        pace = backpressure.next_pace(pace, lag=stream.lag, cap=rim.pipeline.max_rows_per_epoch)
        rim.beat.say(state=pace, lag=stream.lag)
        _heed_stop_file(rim)
        _await_next_look(rim, stream)


def _await_next_look(rim: DriverContext, stream: MicrobatchEngine) -> None:
    """Wait for a trigger's time, or until there is an end to see to.

    An epoch alone is no reason to look: it has looked at the log itself, and a look makes the broker read partitions.
    """
    due = time.monotonic() + max(0.1, rim.settings.stream.trigger_seconds)
    while (left := due - time.monotonic()) > 0:
        if stream.failure is not None or rim.stopping.is_set() or stream.drained:
            return
        stream.wake.wait(left)
        stream.wake.clear()


def _heed_stop_file(rim: DriverContext) -> None:
    if (rim.place / "stop").exists():
        rim.stopping.set()


def _look(rim: DriverContext, stream: MicrobatchEngine) -> None:
    try:
        stream.look()
    except LogError as error:
        if error.runbook != "KafkaUnreachable":
            raise
        stream.signs.silent()
        log.warning("kafka_unreachable", pipeline=rim.pipeline.name, waiting_before="look")


def _await_broker(rim: DriverContext, stream: MicrobatchEngine) -> None:
    """Wait until the log answers and still is what the table was built from, or until the driver is asked to stop.

    Raises:
        CutoverError: It is not.
    """
    stream.failure, ours = None, stream.committer
    while not rim.stopping.is_set():
        stream.signs.silent()
        _heed_stop_file(rim)
        try:
            known = same_log.recorded(ours.version.uri)
            found = start_offsets.begin(rim.pipeline, rim.client, ours.newest, ours.accepted, known)
        except LogError as error:
            if error.runbook != "KafkaUnreachable":
                raise
            rim.stopping.wait(1.0)
        else:
            stream.signs.answered()
            stream.position = dict(found.offsets)
            return


def _halt(
    rim: DriverContext,
    stream: MicrobatchEngine,
    running: "StreamingQuery",
    session: "SparkSession",
    *,
    will_go_on: bool,
) -> None:
    """Let the epoch in hand finish, then end the query; an epoch that does not finish is left to the next driver."""
    if not will_go_on:
        rim.stopping.set()
        rim.beat.say(state="STOPPING")
    patience = SILENT_PATIENCE_SECONDS if stream.signs.is_silent else STOP_PATIENCE_SECONDS
    if stream.lock.acquire(timeout=patience):
        stream.lock.release()
    else:
        log.warning("epoch_abandoned", pipeline=rim.pipeline.name, patience=patience)
        session.sparkContext.cancelAllJobs()
    with contextlib.suppress(Exception):  # a JVM that died has no query to stop
        running.stop()
    shutil.rmtree(stream.checkpoint, ignore_errors=True)
