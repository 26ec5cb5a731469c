"""Fixtures of the stream's tests: settings that waste no time, a topic of its own, a driver in this process."""

import threading
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from cutover.clock import Clock, SystemClock
from cutover.definition import Pipeline
from cutover.probe import Probe, silent
from cutover.settings import Settings
from streaming import driver
from streaming.heartbeat import folder
from tests.integration.streaming import rig

WITHIN = 90.0


class Background:
    """A driver in a thread: stopped by its file, and its end is looked at."""

    def __init__(self, settings: Settings, pipeline: Pipeline, clock: Clock, probe: Probe, until: driver.Until) -> None:
        self._stop = folder(settings, pipeline.name) / "stop"
        self.failure: BaseException | None = None

        def body() -> None:
            try:
                driver.run(settings, pipeline, until=until, clock=clock, probe=probe)
            except BaseException as error:  # noqa: BLE001 -- handed to the test
                self.failure = error

        self.thread = threading.Thread(target=body, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Ask it to stop and wait for its end."""
        self._stop.touch()
        self.join()

    def join(self) -> None:
        """Wait for its end."""
        self.thread.join(WITHIN)
        assert not self.thread.is_alive()


Start = Callable[..., Background]


@pytest.fixture
def start() -> Start:
    """Return a function that starts a driver in a thread."""

    def begin(
        settings: Settings,
        pipeline: Pipeline,
        *,
        clock: Clock | None = None,
        probe: Probe = silent,
        until: driver.Until = "forever",
    ) -> Background:
        return Background(settings, pipeline, clock or SystemClock(), probe, until)

    return begin


@pytest.fixture
def quick(kafka_settings: Settings, spark: SparkSession) -> Settings:  # noqa: ARG001 -- the session that drivers share
    """Return settings with a home of this test's own, a broker and no pauses."""
    return rig.fast(kafka_settings)


@pytest.fixture
def topic(quick: Settings, topic_name: str) -> str:
    """Return a topic with two partitions that no other test uses."""
    rig.make_topic(quick, topic_name, partitions=2)
    return topic_name
