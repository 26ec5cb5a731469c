"""Watches the heartbeat of a detached driver from Airflow's triggerer, without a worker slot, for as long as it lives.

Stopping the task by hand (mark failed, mark success, clear) stops the stream; a restart of the triggerer does not: that
runs `cleanup`, which does nothing here, and the next triggerer goes on watching.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psutil
from airflow.triggers.base import BaseTrigger, TriggerEvent
from cutover_tasks.driver_end import DriverEnd, judge

from cutover.errors import CutoverError
from cutover.settings import load_settings
from cutover.streaming.process import detached
from cutover.streaming.process.heartbeat import Heartbeat, read

POLL = 2.0  # seconds
STOP_WITHIN = 60.0  # seconds
REPORT_EVERY = 300  # looks, about ten minutes

# Airflow cancels `on_kill` after about a second. A stop lives on in a task of its own, which something must refer to.
_stops: set["asyncio.Task[None]"] = set()


class HeartbeatTrigger(BaseTrigger):
    """Fires once, when the driver is gone, after the backoff that its end asks for.

    Args:
        pipeline: Name of the pipeline.
        epoch: Newest epoch that was committed when the driver was started; None before the first.
        failures: How often in a row a driver ended without a new epoch.
    """

    def __init__(self, pipeline: str, epoch: int | None, failures: int) -> None:
        super().__init__()
        self.pipeline, self.epoch, self.failures = pipeline, epoch, failures

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what another triggerer needs to go on watching."""
        arguments = {"pipeline": self.pipeline, "epoch": self.epoch, "failures": self.failures}
        return "heartbeat_trigger.HeartbeatTrigger", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Watch; yield how the driver ended (`cutover_tasks.driver_end.DriverEnd` as an event)."""
        settings, last_state, looks = load_settings(), "", 0
        while True:
            beat = await asyncio.to_thread(read, settings, self.pipeline)
            end = judge(beat, epoch=self.epoch, failures=self.failures)
            if end is not None:
                break
            if beat is not None and (beat.state != last_state or looks % REPORT_EVERY == 0):
                self.log.info(describe(beat))
                last_state = beat.state
            looks += 1
            await asyncio.sleep(POLL)
        self._announce(end)
        await asyncio.sleep(end.delay)
        yield TriggerEvent(end.to_event())

    async def on_kill(self) -> None:
        """Stop the stream: a person marked or cleared the task."""
        stop = asyncio.create_task(asyncio.to_thread(self._stop))
        _stops.add(stop)
        stop.add_done_callback(_stops.discard)
        await asyncio.shield(stop)

    def _stop(self) -> None:
        self.log.info("the task was stopped by hand: stopping the stream of %s", self.pipeline)
        stop_driver(self.pipeline)
        self.log.info("the stream of %s is stopped", self.pipeline)

    def _announce(self, end: DriverEnd) -> None:
        if not end.needs_person:
            self.log.warning("%s; epoch %s was committed; next start in %.0f s", end.message, end.epoch, end.delay)


def stop_driver(pipeline: str) -> None:
    """Stop a driver after the epoch in hand; one that does not listen is killed, which loses nothing."""
    settings = load_settings()
    try:
        detached.stop(settings, pipeline, timeout=STOP_WITHIN)
    except CutoverError:
        beat = read(settings, pipeline)
        if beat is not None and beat.alive:
            psutil.Process(beat.pid).kill()


def describe(beat: Heartbeat) -> str:
    """Write state, epoch, unread records and watermark into a line of the task's log."""
    if beat.epoch is None:
        return f"driver {beat.pid} is {beat.state}: no epoch committed yet"
    return (
        f"driver {beat.pid} is {beat.state}: epoch {beat.epoch} committed, {beat.lag} offsets unread, "
        f"watermark {beat.watermark}"
    )
