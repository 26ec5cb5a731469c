"""Verdicts on lag and watermark from a few samples; pure.

Source: Burrow (LinkedIn), consumer lag evaluation rules: evaluate how the position moves, not a number alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise, takewhile

from cutover.definition.model.pipeline import Pipeline
from cutover.driver_state import DriverState
from cutover.lake.epochs.delivery import count_unread
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.settings import AlertSettings


class LagVerdict(StrEnum):
    """Verdict on a stream or a partition, worst first."""

    UNKNOWN = "UNKNOWN"  # log, table or heartbeat cannot be read
    REWOUND = "REWOUND"  # the position moved back, or the log ends before it
    STOPPED = "STOPPED"  # no driver lives
    STALLED = "STALLED"  # a driver lives, records are unread, nothing is committed
    BACKPRESSURED = "BACKPRESSURED"  # the driver reports that it is behind and takes full epochs
    LAGGING = "LAGGING"  # more than one epoch is unread, or the backlog never shrinks
    OK = "OK"


class WatermarkVerdict(StrEnum):
    """Verdict on the watermark."""

    UNKNOWN = "UNKNOWN"  # the log or the table cannot be read
    AHEAD_OF_CLOCK = "AHEAD_OF_CLOCK"  # further than any valid record can move it
    NO_INPUT = "NO_INPUT"  # nothing is unread and nothing new arrives
    HELD_BY = "HELD_BY"  # records are read and the watermark does not move; a partition holds it
    ADVANCING = "ADVANCING"


@dataclass(frozen=True, slots=True, kw_only=True)
class LagSample:
    """State of log, newest epoch and driver at one moment."""

    at: datetime
    monotonic: float  # the same moment on a clock that never moves back, seconds: for the time between two samples
    epoch: EpochRecord  # newest
    end_offsets: Mapping[int, int]  # partition -> next offset for a reader of the definition's isolation
    high_watermarks: Mapping[int, int] = field(default_factory=dict)  # partition -> next offset, open transactions too
    start_offsets: Mapping[int, int] = field(default_factory=dict)  # partition -> first offset that the log still has
    topic_id: str | None = None
    driver: DriverState | None = field(default_factory=DriverState)  # None: its heartbeat cannot be read
    first_unread_times: Mapping[int, int] = field(default_factory=dict)  # partition -> log time, microseconds
    newest_times: Mapping[int, int] = field(default_factory=dict)  # partition -> log time, microseconds

    @property
    def unread(self) -> int:
        """Number of unread offsets of all partitions."""
        return count_unread(self.end_offsets, self.epoch.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class LagLimits:
    """Limits of a pipeline's definition and settings on pace and time."""

    max_rows_per_epoch: int = 50_000
    idle_after: timedelta = timedelta(minutes=1)
    stalled_after: timedelta = timedelta(minutes=2)  # unread records and no commit for longer: the stream is stalled
    max_ahead_micros: int = 0  # how far the watermark may pass the newest log time


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """Position of the stream in one partition, end of the log, and the records between them."""

    partition: int
    read: int
    end: int
    unread: int
    seconds: float | None  # log time from the first unread record to the newest; None: unknown
    verdict: LagVerdict


def compute_max_ahead_micros(pipeline: Pipeline, limits: AlertSettings) -> int:
    """Compute how far a watermark may pass the newest log time, also where the definition accepts any event time."""
    max_ahead = min(pipeline.lateness.max_ahead_micros, int(limits.ahead_seconds * 1e6))
    return max_ahead - pipeline.lateness.out_of_orderness_micros


def compute_reported_seconds(driver: DriverState, since_time: str | None, now: datetime) -> float:
    """Compute how long a state has lasted that the driver reports, corrected by its clock; 0 if it reports none."""
    return 0.0 if since_time is None else (now - datetime.fromisoformat(since_time)).total_seconds() + driver.ahead


def measure_quiet_seconds(samples: Sequence[LagSample]) -> float:
    """Measure for how long the log has had the ends that it has now, as far as the samples show."""
    if not samples:
        return 0.0
    newest = samples[-1]
    unchanged = takewhile(lambda sample: sample.end_offsets == newest.end_offsets, reversed(samples))
    return newest.monotonic - min(sample.monotonic for sample in unchanged)


def evaluate_lag(samples: Sequence[LagSample], limits: LagLimits) -> LagVerdict:
    """Evaluate the stream from samples in order of time, at least one."""
    newest = samples[-1]
    if any(_is_rewound(samples, partition) for partition in newest.end_offsets):
        return LagVerdict.REWOUND
    if newest.driver is None:
        return LagVerdict.UNKNOWN
    if not newest.driver.alive:
        return LagVerdict.STOPPED
    if newest.unread and _measure_stall(newest.driver, newest.at) > limits.stalled_after:
        return LagVerdict.STALLED
    if newest.driver.state == "BACKPRESSURED":
        return LagVerdict.BACKPRESSURED
    return LagVerdict.LAGGING if _is_behind(samples, limits) else LagVerdict.OK


def list_partition_lags(samples: Sequence[LagSample], verdict: LagVerdict) -> tuple[PartitionLag, ...]:
    """List the lag of each partition; a partition with nothing unread is OK, whatever the verdict on the stream."""
    newest = samples[-1]
    lags = []
    for p, end in sorted(newest.end_offsets.items()):
        read = newest.epoch.end.get(p, 0)
        is_timed = p in newest.newest_times and p in newest.first_unread_times
        seconds = (newest.newest_times[p] - newest.first_unread_times[p]) / 1e6 if is_timed else None
        partition_verdict = verdict if end > read else LagVerdict.OK
        lags.append(
            PartitionLag(
                partition=p,
                read=read,
                end=end,
                unread=max(end - read, 0),
                seconds=0.0 if end <= read else seconds,
                verdict=LagVerdict.REWOUND if _is_rewound(samples, p) else partition_verdict,
            )
        )
    return tuple(lags)


def _is_rewound(samples: Sequence[LagSample], partition: int) -> bool:
    """Return whether the position moved back between samples, or the log ends before it."""
    positions = [sample.epoch.end.get(partition, 0) for sample in samples]
    moved_back = any(later < earlier for earlier, later in pairwise(positions))
    return moved_back or samples[-1].end_offsets[partition] < positions[-1]


def _measure_stall(driver: DriverState, now: datetime) -> timedelta:
    """Return for how long the driver reports unread records without a commit."""
    return timedelta(seconds=compute_reported_seconds(driver, driver.unread_since, now))


def _is_behind(samples: Sequence[LagSample], limits: LagLimits) -> bool:
    backlog = [sample.unread for sample in samples]
    if backlog[-1] > limits.max_rows_per_epoch:
        return True
    never_shrank = all(later >= earlier for earlier, later in pairwise(backlog))
    return len(samples) > 2 and all(backlog) and never_shrank  # noqa: PLR2004 -- two points are no trend


def evaluate_watermark(
    samples: Sequence[LagSample], limits: LagLimits, quiet_seconds: float | None
) -> tuple[WatermarkVerdict, int | None]:
    """Evaluate the watermark; for HELD_BY, also return the partition that holds it.

    Args:
        samples: In order of time, at least one.
        limits: Of the pipeline.
        quiet_seconds: For which nothing was sent, at least; None: unknown.
    """
    newest = samples[-1]
    watermark = newest.epoch.watermark_after
    newest_time = max(newest.newest_times.values(), default=None)
    ahead_micros = None if watermark is None or newest_time is None else watermark - newest_time
    if ahead_micros is not None and not newest.epoch.final and ahead_micros > limits.max_ahead_micros:
        return WatermarkVerdict.AHEAD_OF_CLOCK, None
    quiet_seconds = max(quiet_seconds or 0.0, measure_quiet_seconds(samples))
    if newest.unread == 0 and timedelta(seconds=quiet_seconds) > limits.idle_after:
        return WatermarkVerdict.NO_INPUT, None
    if _is_held(samples):
        return WatermarkVerdict.HELD_BY, find_holding_partition(newest)
    return WatermarkVerdict.ADVANCING, None


def _is_held(samples: Sequence[LagSample]) -> bool:
    """Return whether records were read between the samples while the watermark did not move."""
    oldest, newest = samples[0].epoch, samples[-1].epoch
    if newest.watermark_after is None:
        return newest.records > 0
    has_read = any(newest.end.get(p, 0) > oldest.end.get(p, 0) for p in newest.end)
    return has_read and oldest.watermark_after == newest.watermark_after


def find_holding_partition(sample: LagSample) -> int | None:
    """Find the partition that holds the watermark: one with only unread records, else the one with the oldest event."""
    epoch = sample.epoch
    active = [p for p in sample.end_offsets if p not in epoch.idle]
    unread = [p for p in active if p not in epoch.max_event and sample.end_offsets[p] > epoch.end.get(p, 0)]
    if unread:
        return unread[0]
    newest_events = {p: epoch.max_event[p] for p in active if p in epoch.max_event}
    return min(newest_events, key=lambda p: newest_events[p]) if newest_events else None
