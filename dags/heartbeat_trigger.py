"""Trigger that watches the heartbeat of a detached driver, without a worker slot, for as long as the driver is alive.

If a person marks the task failed or success, or clears it, `on_kill` stops the stream. A restart of the triggerer only
runs `cleanup`, which does nothing here; the next triggerer resumes the watch.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psutil
from airflow.triggers.base import BaseTrigger, TriggerEvent
from cutover_tasks.driver_end import DriverEnd, find_end

from cutover.errors import CutoverError
from cutover.settings import load_settings
from cutover.streaming.process import heartbeat
from cutover.streaming.process.heartbeat import Heartbeat, find_heartbeat

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
        """Watch the driver; yield its end (`cutover_tasks.driver_end.DriverEnd` as an event)."""
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
