"""The task that keeps one driver running: start or re-attach, watch without a slot, start again after a crash."""

from collections.abc import Collection
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException
from heartbeat_trigger import HeartbeatTrigger, stop_driver

from cutover.definition.model.pipeline import Pipeline
from cutover.errors import CutoverError
from cutover.settings import Settings, load_settings
from cutover.streaming.process import detached
from cutover.streaming.process.heartbeat import Heartbeat, read
from cutover_tasks.driver_end import MENDS_ITSELF, DriverEnd
from cutover_tasks.task_definitions import find_definition
from cutover_tasks.task_errors import fail_without_retries


class DriverTask(BaseOperator):
    """Keeps the streaming driver of `pipeline` running until a person stops it."""

    ui_color = "#d7e8ff"

    def __init__(self, *, pipeline: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pipeline = pipeline

    def execute(self, context: Context) -> None:  # noqa: ARG002 -- Airflow's signature
        """Start the driver or attach to the one that lives, then watch it.

        Raises:
            AirflowFailException: No driver can start; says why.
        """
        self._start_and_watch(failures=0, wait_for=())

    def resume(self, context: Context, event: dict[str, Any]) -> None:  # noqa: ARG002 -- Airflow's signature
        """Act on the end of the driver.

        Raises:
            AirflowFailException: A person has to look first: the driver refused to go on, or died again and again.
        """
        end = DriverEnd.from_event(event)
        self.log.warning("%s; epoch %s was committed", end.message, end.epoch)
        if end.needs_person:
            msg = f"{end.message}\nEnd {end.failures} in a row without a new epoch; the newest one is {end.epoch}."
            page = end.runbook or "StreamNotRunning"
            raise AirflowFailException(msg if "Runbook:" in msg else f"{msg}\nRunbook: docs/runbooks/{page}.md")
        self._start_and_watch(failures=end.failures, wait_for=MENDS_ITSELF)

    def on_kill(self) -> None:
        """Stop the driver: the task was stopped while it was starting one."""
        stop_driver(self.pipeline)

    def _start_and_watch(self, *, failures: int, wait_for: Collection[str]) -> None:
        with fail_without_retries():
            settings = load_settings()
            pipeline = find_definition(settings, self.pipeline, running=True)
            heartbeat_before, epoch = read(settings, self.pipeline), newest_epoch(settings, pipeline)
            try:
                self._announce(heartbeat_before, detached.ensure(settings, self.pipeline), epoch)
            except CutoverError as error:
                beat = read(settings, self.pipeline)
                if error.runbook not in wait_for and not (beat is not None and beat.alive):
                    raise
                self.log.warning("%s", error)  # it starts slowly, or the watch will count this and wait
        self.log.info("the driver's own log: %s", detached.log_file(settings, self.pipeline))
        trigger = HeartbeatTrigger(pipeline=self.pipeline, epoch=epoch, failures=failures)
        self.defer(trigger=trigger, method_name="resume", timeout=None)

    def _announce(self, heartbeat: Heartbeat | None, beat: Heartbeat, epoch: int | None) -> None:
        if heartbeat is not None and heartbeat.run_id == beat.run_id:
            newest = "no epoch" if epoch is None else f"epoch {epoch}"
            self.log.info("re-attached to driver %d: %s committed", beat.pid, newest)
        else:
            story = "no epoch committed yet, begins at 0" if epoch is None else describe_resume(epoch)
            self.log.info("%s (driver %d)", story, beat.pid)


def newest_epoch(settings: Settings, pipeline: Pipeline) -> int | None:
    """Return the newest committed epoch, read from the lake; None before the first."""
    from cutover.lake.control.versions import current  # noqa: PLC0415 -- the same
    from cutover.lake.epochs.epoch_log import EpochLog  # noqa: PLC0415 -- the same
    from cutover.lake.tables import delta  # noqa: PLC0415 -- brings deltalake, which no DAG file may load

    version = current(settings, pipeline)
    record = EpochLog(version.uri).newest() if version is not None and delta.exists(version.uri) else None
    return None if record is None else record.epoch


def describe_resume(epoch: int) -> str:
    """Return how the log tells of a new start."""
    return f"epoch {epoch} committed, resumed at {epoch + 1}"
