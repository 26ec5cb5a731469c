"""Operator that keeps one streaming driver running: start it or attach to it, watch it deferred, restart it."""

from collections.abc import Collection
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException
from heartbeat_trigger import TRANSIENT, DriverEnd, HeartbeatTrigger, stop_or_kill_driver

from cutover.errors import CutoverError
from cutover.pipeline_lake import PipelineLake
from cutover.settings import load_settings
from cutover.streaming.process import heartbeat
from cutover.streaming.process.heartbeat import Heartbeat, find_heartbeat
from cutover_tasks.task_parts import fail_without_retries, load_task_definition


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
