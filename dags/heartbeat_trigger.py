"""Operator of one streaming driver, and the trigger that watches its heartbeat without a worker slot.

The operator starts the driver or attaches to it, defers, and restarts it. The triggerer imports the trigger by this
name (`PYTHONPATH`), so deferred tasks store it.

`find_end` derives a driver's end from its last heartbeat, and decides between a restart and a failed task. As long as
its task runs, the stream should run: a driver that was stopped outside Airflow (`cutover down`, a reboot, a signal) is
restarted like one that crashed. If a person stops the task, nothing watches the driver and it stays stopped.

If a person marks the task failed or success, or clears it, `on_kill` stops the stream. A restart of the triggerer only
runs `cleanup`, which does nothing here; the next triggerer resumes the watch.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

import psutil
from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException
from airflow.triggers.base import BaseTrigger, TriggerEvent
from cutover_tasks.task_parts import fail_without_retries, load_task_definition

from cutover.errors import CutoverError
from cutover.pipeline_lake import PipelineLake
from cutover.settings import load_settings
from cutover.streaming.process import heartbeat
from cutover.streaming.process.heartbeat import Heartbeat, find_heartbeat

Outcome = Literal["refused", "gone"]
FIRST_DELAY = 5.0  # seconds
LONGEST_DELAY = 300.0  # seconds
INVALID = 2  # exit code: a person has to act before anything is read or written again
UNREACHABLE = "KafkaUnreachable"
TRANSIENT = {UNREACHABLE, "StreamNotRunning"}  # runbooks of errors that a restart may resolve
GIVE_UP_AFTER = 8  # starts in a row without a new epoch: about a quarter of an hour


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverEnd:
    """End of a driver: its outcome and message, and the number of ends in a row."""

    outcome: Outcome
    message: str
    epoch: int | None  # latest one in its heartbeat
    failures: int  # ends since an epoch was last committed, this one included
    runbook: str | None = None

    @property
    def delay(self) -> float:
        """Seconds to wait before the next start: 5, 10, 20, ... up to 300."""
        return 0.0 if self.needs_person else min(FIRST_DELAY * 2 ** (self.failures - 1), LONGEST_DELAY)

    @property
    def needs_person(self) -> bool:
        """True if a person has to act before the next start; an unreachable broker is retried without limit."""
        return self.outcome == "refused" or (self.failures >= GIVE_UP_AFTER and self.runbook != UNREACHABLE)

    def to_event(self) -> dict[str, Any]:
        """Encode the end in JSON values, which Airflow stores as an event."""
        return asdict(self)

    @classmethod
    def from_event(cls, event: dict[str, Any]) -> Self:
        """Parse an event that `to_event` encoded."""
        return cls(**event)


def find_end(beat: Heartbeat | None, *, epoch: int | None, failures: int) -> DriverEnd | None:
    """Derive the end of a driver from its heartbeat; None while it is alive.

    Args:
        beat: Its last heartbeat; None if there is none.
        epoch: Latest committed epoch when it was started; None before the first.
        failures: Ends in a row without a new epoch, before this one.
    """
    if beat is not None and beat.alive:
        return None
    last_epoch = epoch if beat is None or beat.epoch is None else beat.epoch
    has_progressed = last_epoch is not None and (epoch is None or last_epoch > epoch)
    count = 1 if has_progressed else failures + 1
    if beat is None:
        message = "the driver left no heartbeat"
        return DriverEnd(outcome="gone", message=message, epoch=last_epoch, failures=count, runbook="StreamNotRunning")
    if beat.state == "STOPPED":
        message = f"driver {beat.pid} was stopped outside Airflow"
        return DriverEnd(outcome="gone", message=message, epoch=last_epoch, failures=1)
    outcome: Outcome = "gone"
    if beat.state == "FAILED" and beat.exit_code == INVALID and beat.runbook not in TRANSIENT:
        outcome = "refused"
    message = _describe_cause(beat)
    return DriverEnd(outcome=outcome, message=message, epoch=last_epoch, failures=count, runbook=beat.runbook)


def _describe_cause(beat: Heartbeat) -> str:
    if beat.state == "FAILED":
        return f"driver {beat.pid} ended with exit code {beat.exit_code}: {beat.error or 'no message'}"
    return f"driver {beat.pid} ended without a message (killed?); its last state was {beat.state}"


POLL = 2.0  # seconds
STOP_TIMEOUT = 60.0  # seconds
REPORT_EVERY = 300  # polls, about ten minutes

# Airflow cancels `on_kill` after about a second. A stop continues in a separate asyncio task; asyncio holds only weak
# references to tasks, so this set keeps it alive.
_stops: set["asyncio.Task[None]"] = set()


class HeartbeatTrigger(BaseTrigger):
    """Trigger that fires once, when the driver has ended and the backoff before the next start is over.

    Args:
        pipeline: Name of the pipeline.
        epoch: Latest committed epoch when the driver was started; None before the first.
        failures: Number of drivers in a row that ended without a new epoch.
    """

    def __init__(self, pipeline: str, epoch: int | None, failures: int) -> None:
        super().__init__()
        self.pipeline, self.epoch, self.failures = pipeline, epoch, failures

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments from which another triggerer resumes the watch."""
        arguments = {"pipeline": self.pipeline, "epoch": self.epoch, "failures": self.failures}
        return "heartbeat_trigger.HeartbeatTrigger", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Watch the driver; yield its end (`heartbeat_trigger.DriverEnd` as an event)."""
        settings, last_state, polls = load_settings(), "", 0
        while True:
            beat = await asyncio.to_thread(find_heartbeat, settings, self.pipeline)
            end = find_end(beat, epoch=self.epoch, failures=self.failures)
            if end is not None:
                break
            if beat is not None and (beat.state != last_state or polls % REPORT_EVERY == 0):
                self.log.info(describe_heartbeat(beat))
                last_state = beat.state
            polls += 1
            await asyncio.sleep(POLL)
        self._log_end(end)
        await asyncio.sleep(end.delay)
        yield TriggerEvent(end.to_event())

    async def on_kill(self) -> None:
        """Stop the stream, because a person marked or cleared the task."""
        stop = asyncio.create_task(asyncio.to_thread(self._stop))
        _stops.add(stop)
        stop.add_done_callback(_stops.discard)
        await asyncio.shield(stop)

    def _stop(self) -> None:
        self.log.info("the task was stopped by a person: stopping the stream of %s", self.pipeline)
        stop_or_kill_driver(self.pipeline)
        self.log.info("the stream of %s is stopped", self.pipeline)

    def _log_end(self, end: DriverEnd) -> None:
        if not end.needs_person:
            self.log.warning("%s; epoch %s was committed; next start in %.0f s", end.message, end.epoch, end.delay)


def stop_or_kill_driver(pipeline: str) -> None:
    """Stop a driver after its current epoch; kill it if it does not stop in time, which loses no data."""
    settings = load_settings()
    try:
        heartbeat.stop_driver(settings, pipeline, timeout=STOP_TIMEOUT)
    except CutoverError:
        beat = find_heartbeat(settings, pipeline)
        if beat is not None and beat.alive:
            psutil.Process(beat.pid).kill()


def describe_heartbeat(beat: Heartbeat) -> str:
    """Format state, epoch, unread offsets and watermark as a line of the task's log."""
    if beat.epoch is None:
        return f"driver {beat.pid} is {beat.state}: no epoch committed yet"
    return (
        f"driver {beat.pid} is {beat.state}: epoch {beat.epoch} committed, {beat.lag} offsets unread, "
        f"watermark {beat.watermark}"
    )


class DriverTask(BaseOperator):
    """Operator that keeps the streaming driver of `pipeline` running until a person stops the task."""

    ui_color = "#d7e8ff"

    def __init__(self, *, pipeline: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pipeline = pipeline

    def execute(self, context: Context) -> None:  # noqa: ARG002 -- Airflow's signature
        """Start the driver or attach to the running one, then watch it.

        Raises:
            AirflowFailException: The driver cannot be started; the message has the reason.
        """
        self._start_and_watch(failures=0, tolerated=())

    def resume(self, context: Context, event: dict[str, Any]) -> None:  # noqa: ARG002 -- Airflow's signature
        """Restart the driver after it ended, or fail the task.

        Raises:
            AirflowFailException: A person has to act first: the driver ended with an error that a restart does not
                resolve, or it ended repeatedly without a new epoch.
        """
        end = DriverEnd.from_event(event)
        self.log.warning("%s; epoch %s was committed", end.message, end.epoch)
        if end.needs_person:
            msg = f"{end.message}\nEnd {end.failures} in a row without a new epoch; the newest one is {end.epoch}."
            page = end.runbook or "StreamNotRunning"
            raise AirflowFailException(msg if "Runbook:" in msg else f"{msg}\nRunbook: docs/runbooks/{page}.md")
        self._start_and_watch(failures=end.failures, tolerated=TRANSIENT)

    def on_kill(self) -> None:
        """Stop the driver, because the task was stopped while it was starting one."""
        stop_or_kill_driver(self.pipeline)

    def _start_and_watch(self, *, failures: int, tolerated: Collection[str]) -> None:
        """Start the driver or attach to it, then defer; errors of the `tolerated` runbooks are left to the trigger."""
        with fail_without_retries():
            settings = load_settings()
            pipeline = load_task_definition(settings, self.pipeline, running=True)
            previous_beat = find_heartbeat(settings, self.pipeline)
            epoch = read_latest_epoch(PipelineLake(settings, pipeline))
            try:
                self._log_start(previous_beat, heartbeat.ensure_driver(settings, self.pipeline), epoch)
            except CutoverError as error:
                beat = find_heartbeat(settings, self.pipeline)
                if error.runbook not in tolerated and not (beat is not None and beat.alive):
                    raise
                self.log.warning("%s", error)  # a slow start; or the trigger counts this end and waits
        self.log.info("log of the driver: %s", heartbeat.find_log_file(settings, self.pipeline))
        trigger = HeartbeatTrigger(pipeline=self.pipeline, epoch=epoch, failures=failures)
        self.defer(trigger=trigger, method_name="resume", timeout=None)

    def _log_start(self, previous_beat: Heartbeat | None, beat: Heartbeat, epoch: int | None) -> None:
        if previous_beat is not None and previous_beat.run_id == beat.run_id:
            progress = "no epoch" if epoch is None else f"epoch {epoch}"
            self.log.info("re-attached to driver %d: %s committed", beat.pid, progress)
        else:
            position = "no epoch committed yet, begins at 0" if epoch is None else describe_resume(epoch)
            self.log.info("%s (driver %d)", position, beat.pid)


def read_latest_epoch(lake: PipelineLake) -> int | None:
    """Read the latest committed epoch from the lake; None before the first."""
    from cutover.lake.control.versions import find_current_version  # noqa: PLC0415 -- the same
    from cutover.lake.epochs.epoch_log import EpochLog  # noqa: PLC0415 -- the same
    from cutover.lake.tables import delta  # noqa: PLC0415 -- brings deltalake, which no DAG file may load

    version = find_current_version(lake)
    record = EpochLog(version.uri).newest() if version is not None and delta.exists(version.uri) else None
    return None if record is None else record.epoch


def describe_resume(epoch: int) -> str:
    """Describe the position at which a new driver resumes."""
    return f"epoch {epoch} committed, resumed at {epoch + 1}"
