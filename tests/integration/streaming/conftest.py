"""Fixtures of the stream's tests: settings that waste no time, a new topic, a driver in this process."""

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from cutover.clock import Clock, Probe, silent
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from cutover.streaming import driver
from tests.integration.streaming import rig
from tests.support.drivers.background import Background

Start = Callable[..., Background]


@pytest.fixture
def start() -> Start:
    """Return a function that starts a driver in a thread."""

    def begin(
        lake: PipelineLake,
        *,
        clock: Clock | None = None,
        probe: Probe = silent,
        until: driver.Until = "forever",
    ) -> Background:
        return Background(lake, clock=clock, probe=probe, until=until)

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
