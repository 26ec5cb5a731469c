"""The task that keeps one driver running: start or re-attach, watch without a slot, start again after a crash."""

from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException
from driver_end import DriverEnd
from heartbeat_trigger import STOP_WITHIN, HeartbeatTrigger
from task_errors import failing_plainly

from cutover.definition import catalogue
from cutover.definition.pipeline import Pipeline
from cutover.settings import Settings, load_settings
from streaming import attach
from streaming.heartbeat import read

GIVE_UP_AFTER = 8  # starts in a row without a new epoch: about a quarter of an hour
RUNBOOK = "Runbook: docs/runbooks/StreamNotRunning.md"


class DriverTask(BaseOperator):
    """Keeps the streaming driver of `pipeline` running until somebody stops it."""

    ui_color = "#d7e8ff"

    def __init__(self, *, pipeline: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pipeline = pipeline

    def execute(self, context: Context) -> None:  # noqa: ARG002 -- Airflow's signature
        """Start the driver or attach to the one that lives, then watch it."""
        self._start_and_watch(failures=0)

    def resume(self, context: Context, event: dict[str, Any]) -> None:  # noqa: ARG002 -- Airflow's signature
        """Act on the end of the driver.

        Raises:
            AirflowFailException: A person has to look first: the driver refused to go on, or died again and again.
        """
        end = DriverEnd.from_event(event)
        if end.outcome == "refused":
            raise AirflowFailException(end.message)
        if end.outcome == "stopped":
            self.log.info("%s after epoch %s. Trigger this DAG again to go on from there.", end.message, end.epoch)
            return
        self.log.warning("%s (end %d in a row without a new epoch)", end.message, end.failures)
        if end.failures >= GIVE_UP_AFTER:
            msg = f"Stream of {self.pipeline}: {end.failures} starts without a new epoch, the last: {end.message}"
            raise AirflowFailException(f"{msg}\n{RUNBOOK}")  # noqa: EM102 -- the message and its page
        self._start_and_watch(failures=end.failures)

    def on_kill(self) -> None:
        """Stop the driver: the task was stopped while it was starting one."""
        settings = load_settings()
        attach.stop(settings, catalogue.get(settings, self.pipeline), within=STOP_WITHIN)

    def _start_and_watch(self, *, failures: int) -> None:
        with failing_plainly():
            settings = load_settings()
            pipeline = catalogue.get(settings, self.pipeline)
            before, epoch = read(settings, self.pipeline), newest_epoch(settings, pipeline)
            beat = attach.ensure(settings, pipeline)
        if before is not None and before.run_id == beat.run_id:
            self.log.info("re-attached to driver %d: %s committed", beat.pid, _epoch(epoch))
        else:
            resumed = 0 if epoch is None else epoch + 1
            self.log.info("%s committed, resumed at %d (driver %d)", _epoch(epoch), resumed, beat.pid)
        self.log.info("the driver's own log: %s", settings.run_dir / self.pipeline / "driver.log")
        trigger = HeartbeatTrigger(pipeline=self.pipeline, epoch=epoch, failures=failures)
        self.defer(trigger=trigger, method_name="resume", timeout=None)


def newest_epoch(settings: Settings, pipeline: Pipeline) -> int | None:
    """Return the newest committed epoch, read from the lake; None before the first."""
    from cutover.lake import tables  # noqa: PLC0415 -- brings deltalake, which no DAG file may load
    from cutover.lake.epochs import EpochLog  # noqa: PLC0415 -- the same
    from cutover.lake.versions import current  # noqa: PLC0415 -- the same

    version = current(settings, pipeline)
    record = EpochLog(version.uri).newest() if version is not None and tables.exists(version.uri) else None
    return None if record is None else record.epoch


def _epoch(epoch: int | None) -> str:
    return "no epoch" if epoch is None else f"epoch {epoch}"
