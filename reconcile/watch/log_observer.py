"""State of a pipeline's log: ends of its partitions after the newest epoch, retention, time to read it again.

It reads only, and joins no consumer group.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from cutover.clock import Clock
from cutover.definition.model.pipeline import Pipeline
from cutover.driver_state import DriverState, read_driver_state
from cutover.errors import LakeError
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.tables import delta
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import name_log
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.watch.lag import LagSample
from cutover.recorded_times import find_latest_times

RECENT_EPOCHS = 1_500
"""Epochs that are read: ten minutes at two per second, and some more."""

_LONGEST_RETENTION_MILLIS = timedelta.max // timedelta(milliseconds=1)
"""Longer ones mean no limit: topics that keep records forever are often given the largest number there is."""


class LogObserver:
    """Samples the log and the newest epoch of one pipeline.

    Raises:
        LakeError: The pipeline has no epoch yet, or its table cannot be read.
        LogError: The log does not answer.
    """

    def __init__(self, lake: PipelineLake, clock: Clock) -> None:
        self._lake, self._clock = lake, clock
        self.log = LogClient(lake.settings)

    def sample(self) -> tuple[LagSample, list[EpochRecord]]:
        """Return a sample of this moment, and the newest epochs, oldest first."""
        epochs = self.read_epochs()
        return self.sample_log(epochs[-1], read_driver_state(self._lake.settings, self._lake.pipeline.name)), epochs

    def sample_log(self, newest: EpochRecord, driver: DriverState | None) -> LagSample:
        """Return a sample of the log after an epoch.

        Args:
            newest: Newest epoch.
            driver: Latest state that the driver reported; None: its heartbeat cannot be read.
        """
        topic = name_log(self._lake.pipeline)
        ends = self.log.latest(topic, self._lake.pipeline.source.isolation)
        first_unread = {p: [newest.end.get(p, 0)] for p, end in ends.items() if end > newest.end.get(p, 0)}
        return LagSample(
            at=self._clock.now(),
            monotonic=self._clock.monotonic(),
            epoch=newest,
            end_offsets=ends,
            high_watermarks=self.log.high_watermarks(topic),
            start_offsets=self.log.earliest(topic),
            topic_id=self.log.topic_id(topic),
            driver=driver,
            first_unread_times={r.partition: r.log_time_micros for r in self.log.read(topic, first_unread)},
            newest_times=self.log.newest_times(topic),
        )

    def read_epochs(self) -> list[EpochRecord]:
        """Read the newest epochs, oldest first."""
        version = versions.find_current_version(self._lake)
        epoch_log = EpochLog(version.uri) if version is not None and delta.exists(version.uri) else None
        epochs = [] if epoch_log is None else epoch_log.recent(RECENT_EPOCHS)
        if not epochs:
            raise make_no_epoch_error(self._lake.pipeline)
        return epochs


def make_no_epoch_error(pipeline: Pipeline) -> LakeError:
    """Build the error of a pipeline that has nothing to watch yet."""
    msg = f"Stream of {pipeline.name}: expected at least one committed epoch under this definition, got none."
    return LakeError(msg + f"\nHint: `{pipeline.driver_command}` starts it.", runbook="StreamNotRunning")


def parse_retention(config: Mapping[str, str]) -> timedelta | None:
    """Parse how long a topic keeps every record, as far as its age matters: None without a limit, zero if compacted."""
    if "compact" in config.get("cleanup.policy", "delete"):
        return timedelta(0)
    millis = int(config.get("retention.ms", "-1"))
    return None if millis < 0 or millis > _LONGEST_RETENTION_MILLIS else timedelta(milliseconds=millis)


def find_shortest(retentions: Iterable[timedelta | None]) -> timedelta | None:
    """Return the shortest of several retentions; None: none has a limit."""
    return min((time for time in retentions if time is not None), default=None)


def is_limited_by_size(config: Mapping[str, str]) -> bool:
    """Return whether a topic deletes records once a partition is too large, whatever their age."""
    return int(config.get("retention.bytes", "-1")) >= 0


def find_retained_since(
    epochs: Sequence[EpochRecord], start_offsets: Mapping[int, int], now: datetime
) -> datetime | None:
    """Find the time from which a log has kept all its records: at the latest when the stream read the oldest of them.

    For a log of limited size this is the retention that its limit has amounted to so far.

    Args:
        epochs: All epochs, in order.
        start_offsets: Partition -> first offset that the log still has.
        now: By the clock of this host. Where clocks disagree, the latest time at which an epoch can have read counts.

    Returns:
        None where no epoch has read any of it.
    """
    dated = [epoch for epoch in epochs if epoch.processing_time]
    latest = find_latest_times([datetime.fromisoformat(epoch.processing_time) for epoch in dated], now)
    times = []
    for partition, start in start_offsets.items():
        times += next(([at] for e, at in zip(dated, latest, strict=True) if e.end.get(partition, 0) > start), [])
    return max(times, default=None)


def estimate_replay_time(epochs: Sequence[EpochRecord], records: int) -> timedelta | None:
    """Estimate how long reading a number of records takes, at the pace of the epochs so far; None before the first."""
    records_read = sum(epoch.records for epoch in epochs)
    seconds = sum(epoch.seconds for epoch in epochs if epoch.records)
    return None if records_read == 0 or seconds == 0 else timedelta(seconds=seconds / records_read * records)
