"""Verdicts on lag and watermark from a few samples; pure.

Source: Burrow (LinkedIn), consumer lag evaluation rules: judge by how the position moves, not by a number alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise

from cutover.definition.model.pipeline import Pipeline
from cutover.driver_state import DriverState
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.settings import AlertSettings


class Lag(StrEnum):
    """One word on a stream or a partition; the worst first."""

    UNKNOWN = "UNKNOWN"  # log, table or heartbeat cannot be read
    REWOUND = "REWOUND"  # the position went back, or the log ends before it
    STOPPED = "STOPPED"  # no driver lives
    STALLED = "STALLED"  # a driver lives, records are unread, nothing is committed
    BACKPRESSURED = "BACKPRESSURED"  # the driver says that it is behind and takes full epochs
    LAGGING = "LAGGING"  # more than one epoch is unread, or the backlog never shrinks
    OK = "OK"


class Time(StrEnum):
    """One word on the watermark."""

    UNKNOWN = "UNKNOWN"  # the log or the table does not answer
    AHEAD_OF_CLOCK = "AHEAD_OF_CLOCK"  # beyond what any honest record can bring about
    NO_INPUT = "NO_INPUT"  # nothing unread, nothing new: time rests
    HELD_BY = "HELD_BY"  # records come, time does not move; a partition holds it
    ADVANCING = "ADVANCING"


@dataclass(frozen=True, slots=True, kw_only=True)
class LagSample:
    """What was seen at one moment."""

    at: datetime
    seen: float  # the same, in seconds of a clock that never goes back: for the time between two samples
    epoch: EpochRecord  # the newest
    ends: Mapping[int, int]  # partition -> next offset in the log for a reader of the definition's isolation
    high: Mapping[int, int] = field(default_factory=dict)  # partition -> high watermark
    earliest: Mapping[int, int] = field(default_factory=dict)  # partition -> first offset that is still there
    topic_id: str | None = None
    driver: DriverState | None = field(default_factory=DriverState)  # None: its heartbeat cannot be read
    unread_since: Mapping[int, int] = field(default_factory=dict)  # partition -> log time of the first unread, micros
    newest: Mapping[int, int] = field(default_factory=dict)  # partition -> newest log time, micros


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the definition says about pace and time."""

    max_rows_per_epoch: int = 50_000
    idle_after: timedelta = timedelta(minutes=1)
    stalled_after: timedelta = timedelta(minutes=2)  # unread records and no commit for this long: nothing moves
    ahead_micros: int = 0  # how far the watermark may pass the newest log time


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """One partition: read up to, log end, records between, and how much log time they span."""

    partition: int
    read: int
    end: int
    unread: int
    seconds: float | None
    verdict: Lag


def ahead_micros(pipeline: Pipeline, limits: AlertSettings) -> int:
    """Return how far a watermark may pass the newest log time; a definition that takes any event is not believed."""
    return min(pipeline.lateness.max_ahead_micros, int(limits.ahead_seconds * 1e6)) - (
        pipeline.lateness.out_of_orderness_micros
    )


def lasting(driver: DriverState, since: str | None, now: datetime) -> float:
    """Return the seconds that something has lasted which a driver told, whatever its clock says; 0 if it told none."""
    return 0.0 if since is None else (now - datetime.fromisoformat(since)).total_seconds() + driver.ahead


def count_unread(sample: LagSample) -> int:
    """Return how many offsets of all partitions are not read yet (control records of transactions included)."""
    return sum(max(end - sample.epoch.end.get(p, 0), 0) for p, end in sample.ends.items())


def judge(samples: Sequence[LagSample], limits: Limits) -> Lag:
    """Return the verdict on the stream from samples in order of time, at least one."""
    newest = samples[-1]
    parts = [_partition_verdict(samples, p) for p in newest.ends]
    if Lag.REWOUND in parts:
        return Lag.REWOUND
    if newest.driver is None:
        return Lag.UNKNOWN
    if not newest.driver.alive:
        return Lag.STOPPED
    if count_unread(newest) and _measure_stall(newest.driver, newest.at) > limits.stalled_after:
        return Lag.STALLED
    if newest.driver.state == "BACKPRESSURED":
        return Lag.BACKPRESSURED
    return Lag.LAGGING if _is_behind(samples, limits) else Lag.OK


def partitions(samples: Sequence[LagSample], verdict: Lag) -> tuple[PartitionLag, ...]:
    """Return each partition's lag; a partition with nothing unread is OK whatever the stream is."""
    newest = samples[-1]
    found = []
    for p, end in sorted(newest.ends.items()):
        read = newest.epoch.end.get(p, 0)
        own = _partition_verdict(samples, p)
        if own is Lag.OK and end > read:
            own = verdict
        seconds = (newest.newest[p] - newest.unread_since[p]) / 1e6 if _is_timed(newest, p) else None
        found.append(
            PartitionLag(
                partition=p,
                read=read,
                end=end,
                unread=max(end - read, 0),
                seconds=0.0 if end <= read else seconds,
                verdict=own,
            )
        )
    return tuple(found)


def _is_timed(sample: LagSample, partition: int) -> bool:
    return partition in sample.newest and partition in sample.unread_since


def _partition_verdict(samples: Sequence[LagSample], partition: int) -> Lag:
    newest = samples[-1]
    read = [s.epoch.end.get(partition, 0) for s in samples]
    went_back = any(later < earlier for earlier, later in pairwise(read))
    return Lag.REWOUND if went_back or newest.ends[partition] < read[-1] else Lag.OK


def _measure_stall(driver: DriverState, now: datetime) -> timedelta:
    """Return for how long nothing was committed although records are unread, as the driver says."""
    return timedelta(seconds=lasting(driver, driver.unread_since, now))


def _is_behind(samples: Sequence[LagSample], limits: Limits) -> bool:
    backlog = [count_unread(sample) for sample in samples]
    if backlog[-1] > limits.max_rows_per_epoch:
        return True
    never_shrank = all(later >= earlier for earlier, later in pairwise(backlog))
    return len(samples) > 2 and all(backlog) and never_shrank  # noqa: PLR2004 -- two points are no trend


def judge_time(samples: Sequence[LagSample], limits: Limits, quiet: float | None) -> tuple[Time, int | None]:
    """Return the verdict on the watermark and, for HELD_BY, the partition that holds it.

    Args:
        samples: In order of time, at least one.
        limits: From where on something is called by its name.
        quiet: Seconds since the newest epoch that read something; None: not known.
    """
    newest = samples[-1]
    watermark = newest.epoch.watermark_after
    latest = max(newest.newest.values(), default=None)
    if (
        watermark is not None
        and latest is not None
        and not newest.epoch.final
        and (watermark > latest + limits.ahead_micros)
    ):
        return Time.AHEAD_OF_CLOCK, None
    if count_unread(newest) == 0 and _is_quiet(samples, limits, quiet):
        return Time.NO_INPUT, None
    return (Time.HELD_BY, holder(newest)) if _is_held(samples) else (Time.ADVANCING, None)


def _is_quiet(samples: Sequence[LagSample], limits: Limits, quiet: float | None) -> bool:
    if quiet is not None and timedelta(seconds=quiet) > limits.idle_after:
        return True
    waited = samples[-1].seen - samples[0].seen >= limits.idle_after.total_seconds()
    return waited and all(sample.ends == samples[0].ends for sample in samples)


def _is_held(samples: Sequence[LagSample]) -> bool:
    """Return whether records were read between the samples while the watermark stood still."""
    first, last = samples[0].epoch, samples[-1].epoch
    if last.watermark_after is None:
        return last.records > 0
    has_read = any(last.end.get(p, 0) > first.end.get(p, 0) for p in last.end)
    return has_read and first.watermark_after == last.watermark_after


def holder(sample: LagSample) -> int | None:
    """Return the partition that holds the minimum: with unread records and none read, else with the oldest event."""
    epoch = sample.epoch
    active = [p for p in sample.ends if p not in epoch.idle]
    waiting = [p for p in active if p not in epoch.max_event and sample.ends[p] > epoch.end.get(p, 0)]
    if waiting:
        return waiting[0]
    seen = {p: epoch.max_event[p] for p in active if p in epoch.max_event}
    return min(seen, key=lambda p: seen[p]) if seen else None
