"""Inputs of a driver run from outside its state."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cutover.clock import Clock
from cutover.definition.model.pipeline import Pipeline
from cutover.engine.usage import UsageMeter
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.probe import Probe
from cutover.streaming.process.driver_metrics import DriverMetrics
from cutover.streaming.process.heartbeat import HeartbeatWriter
from cutover.streaming.process.time_policy import STEADY, TimePolicy


@dataclass(slots=True)
class DriverStart:
    """Start of a driver, once it is known."""

    table: str = ""  # URI of the epoch log
    offsets: Mapping[int, int] = field(default_factory=dict)  # partition -> the first one that it reads


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverContext:
    """Everything that a driver run is given from outside: pipeline, clients, clock, policy, heartbeat, stop event."""

    lake: PipelineLake
    client: LogClient
    clock: Clock
    probe: Probe
    beat: HeartbeatWriter
    place: Path  # folder of the pipeline's run-time files
    time_policy: TimePolicy = STEADY
    meter: UsageMeter = field(default_factory=UsageMeter)  # counts from the run's beginning on
    metrics: DriverMetrics = field(default_factory=DriverMetrics)
    start: DriverStart = field(default_factory=DriverStart)
    stopping: threading.Event = field(default_factory=threading.Event)

    @property
    def pipeline(self) -> Pipeline:
        """Definition of the pipeline."""
        return self.lake.pipeline
