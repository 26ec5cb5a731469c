"""One look at a stream: newest epochs, log ends, heartbeat. Reads only; joins no consumer group."""

from cutover.clock import Clock
from cutover.definition.model.pipeline import Pipeline
from cutover.driver_state import DriverState, read_driver_state
from cutover.errors import LakeError
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.tables import delta
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import log_of
from cutover.reconcile.watch.lag import LagSample
from cutover.settings import Settings

RECENT = 1_500
"""Epochs that are read: ten minutes at two a second, and some."""


class Observer:
    """Looks at one pipeline again and again.

    Raises:
        LakeError: The pipeline has no epoch yet, or its table cannot be read.
        LogError: The log does not answer.
    """

    def __init__(self, settings: Settings, pipeline: Pipeline, clock: Clock) -> None:
        self._settings, self._pipeline, self._clock = settings, pipeline, clock
        self.log = LogClient(settings)

    def sample(self) -> tuple[LagSample, list[EpochRecord]]:
        """Return what is there now, and the newest epochs, oldest first."""
        records = self.records()
        return self.sample_log(records[-1], read_driver_state(self._settings, self._pipeline.name)), records

    def sample_log(self, newest: EpochRecord, driver: DriverState | None) -> LagSample:
        """Return what the log holds beside the newest epoch.

        Args:
            newest: The newest epoch.
            driver: What the driver said last; None: its heartbeat cannot be read.
        """
        topic = log_of(self._pipeline)
        ends = self.log.latest(topic, self._pipeline.source.isolation)
        first = {p: [newest.end.get(p, 0)] for p, end in ends.items() if end > newest.end.get(p, 0)}
        return LagSample(
            at=self._clock.now(),
            seen=self._clock.monotonic(),
            epoch=newest,
            ends=ends,
            high=self.log.high_watermarks(topic),
            earliest=self.log.earliest(topic),
            topic_id=self.log.topic_id(topic),
            driver=driver,
            unread_since={r.partition: r.log_time_micros for r in self.log.read(topic, first)},
            newest=self.log.newest_times(topic),
        )

    def records(self) -> list[EpochRecord]:
        """Return the records of the newest epochs, oldest first."""
        version = versions.current(self._settings, self._pipeline)
        epochs = EpochLog(version.uri) if version is not None and delta.exists(version.uri) else None
        found = [] if epochs is None else recent(epochs)
        if not found:
            raise no_epoch(self._pipeline.name)
        return found


def recent(epochs: EpochLog) -> list[EpochRecord]:
    """Return the records of the newest epochs, oldest first; none before the first."""
    return epochs.recent(RECENT)


def no_epoch(name: str) -> LakeError:
    """Return the message that there is nothing to watch yet."""
    msg = f"Stream of {name}: expected at least one committed epoch under this definition, got none."
    return LakeError(msg + f"\nHint: `cutover stream {name}` starts it.", runbook="StreamNotRunning")
