"""Status of a stream as `cutover watch` shows it and exports it to Prometheus; made from the facts alone.

The verdicts on lag and watermark are evaluated from a few samples, by how the position moves, not by a number alone.

Source: Burrow (LinkedIn), consumer lag evaluation rules.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import Any

from cutover import metrics
from cutover.definition.model.pipeline import Pipeline
from cutover.driver_state import DriverState
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.log.topic_partitions import format_partition_number
from cutover.metrics import MetricSample, render_samples
from cutover.reconcile.result.text import count_noun, share
from cutover.reconcile.watch.alerts.catalogue import ALERTS, evaluate_alerts, make_alert
from cutover.reconcile.watch.facts import (
    Alert,
    LagSample,
    UnknownFact,
    WatchFacts,
    compute_max_ahead_micros,
    compute_reported_seconds,
    find_holding_partition,
    measure_quiet_seconds,
)
from cutover.settings import AlertSettings, Settings

LATE_SHARE_EPOCHS = 200
"""Newest epochs that the late share is computed from."""

TREND_SAMPLES = 10
"""Newest samples by which the backlog and the watermark are evaluated."""

_RUNBOOK_NAME = re.compile(r"[A-Z][A-Za-z]{0,62}\Z")  # a driver's file may name any


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


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchStatus:
    """Status of a stream."""

    pipeline: str
    at: str  # ISO 8601, UTC
    verdict: str  # one word
    watermark_verdict: str  # one word, `HELD_BY 2` names the partition
    epoch: int | None  # None: before the first, or the table cannot be read
    unread: int | None  # None: the log does not answer
    partitions: tuple[PartitionLag, ...]
    watermark: int | None  # microseconds
    newest_event: int | None  # microseconds
    watermark_lag_seconds: float | None  # newest event - watermark; None: a final epoch closed all windows, or unknown
    late_share: float | None  # late / (accepted + late), of the newest epochs; None: no record counts, or unknown
    late_epochs: int | None  # number of these epochs; None: the table cannot be read
    driver: DriverState | None  # None: its heartbeat cannot be read
    alerts: tuple[Alert, ...] = ()  # that fire now, most urgent first
    undecided: tuple[str, ...] = ()  # alerts that may fire: a fact that they need cannot be read

    def to_json(self) -> dict[str, Any]:
        """Return the fields by name, as `watch --json` prints them."""
        return asdict(self)


def make_limits(pipeline: Pipeline, settings: AlertSettings) -> LagLimits:
    """Build the limits of a pipeline."""
    return LagLimits(
        max_rows_per_epoch=pipeline.max_rows_per_epoch,
        idle_after=timedelta(microseconds=pipeline.lateness.idle_after_micros),
        max_ahead_micros=compute_max_ahead_micros(pipeline, settings),
        stalled_after=timedelta(seconds=settings.stalled_seconds),
    )


def make_status(facts: WatchFacts) -> WatchStatus:
    """Summarize lag, watermark, late share and alerts."""
    is_readable = not isinstance(facts.epochs, UnknownFact)
    epochs = () if isinstance(facts.epochs, UnknownFact) else facts.epochs[-LATE_SHARE_EPOCHS:]
    newest = epochs[-1] if epochs else None
    sample = facts.sample_fact
    evaluation = evaluate_alerts(facts)
    verdict, watermark_verdict, partitions = _evaluate_samples(facts)
    watermark = None if newest is None else newest.watermark_after
    newest_event = None if newest is None else max(newest.max_event.values(), default=None)
    return WatchStatus(
        pipeline=facts.pipeline.name,
        at=facts.at.isoformat(timespec="seconds"),
        verdict=str(verdict),
        watermark_verdict=watermark_verdict,
        epoch=None if newest is None else newest.epoch,
        unread=sample.unread if isinstance(sample, LagSample) else None,
        partitions=partitions,
        watermark=watermark,
        newest_event=newest_event,
        watermark_lag_seconds=_measure_watermark_lag(newest),
        late_share=compute_epoch_late_share(epochs),
        late_epochs=len(epochs) if is_readable else None,
        driver=None if isinstance(facts.driver, UnknownFact) else facts.driver,
        alerts=evaluation.alerts,
        undecided=evaluation.undecided,
    )


def _measure_watermark_lag(newest: EpochRecord | None) -> float | None:
    """Compute how far the watermark trails the newest event, seconds; None once a final epoch has ended event time."""
    if newest is None or newest.final or newest.watermark_after is None or not newest.max_event:
        return None
    lag_micros = max(newest.max_event.values()) - newest.watermark_after
    return lag_micros / 1e6 if lag_micros >= 0 else None


def _evaluate_samples(facts: WatchFacts) -> tuple[LagVerdict, str, tuple[PartitionLag, ...]]:
    """Evaluate the stream, its watermark, and its partitions."""
    samples, limits = facts.samples[-TREND_SAMPLES:], make_limits(facts.pipeline, facts.limits)
    if not isinstance(facts.sample_fact, LagSample):
        return LagVerdict.UNKNOWN, str(WatermarkVerdict.UNKNOWN), ()
    verdict = evaluate_lag(samples, limits)
    watermark_verdict, partition = evaluate_watermark(samples, limits, facts.quiet_seconds)
    text = str(watermark_verdict) if partition is None else f"{watermark_verdict} {partition}"
    return verdict, text, list_partition_lags(samples, verdict)


def compute_epoch_late_share(epochs: Sequence[EpochRecord]) -> float | None:
    """Compute late / (accepted + late) pairs of some epochs; None without any."""
    late = sum(epoch.counts.get("late", 0) for epoch in epochs)
    accepted = sum(epoch.counts.get("accepted", 0) for epoch in epochs)
    return late / (late + accepted) if late + accepted else None


def describe_late_share(watch_status: WatchStatus) -> str:
    """Return the share of late records in the newest epochs, or why there is none."""
    if watch_status.late_epochs is None:
        return "unknown"
    if not watch_status.late_epochs:
        return "none before the first epoch"
    epochs = f"the newest {count_noun(watch_status.late_epochs, 'epoch')}"
    return (
        f"none: no record counts in {epochs}"
        if watch_status.late_share is None
        else f"{share(watch_status.late_share)} in {epochs}"
    )


def list_metrics(status: WatchStatus) -> Iterator[MetricSample]:
    """Yield the metrics of a status; what is unknown has no series."""
    name = status.pipeline
    yield from _list_alert_metrics(status)
    at = datetime.fromisoformat(status.at).timestamp()
    yield MetricSample("cutover_watch_last_sample_timestamp_seconds", (name,), at)
    if status.driver is not None:
        yield MetricSample("cutover_watch_driver_alive", (name,), float(status.driver.alive))
    if status.late_share is not None:
        yield MetricSample("cutover_watch_late_ratio", (name,), status.late_share)
    if status.watermark_lag_seconds is not None:
        yield MetricSample("cutover_watch_watermark_lag_seconds", (name,), status.watermark_lag_seconds)
    for lag in status.partitions:
        yield MetricSample("cutover_watch_unread_offsets", (name, format_partition_number(lag.partition)), lag.unread)


def _list_alert_metrics(status: WatchStatus) -> Iterator[MetricSample]:
    """Yield every decided alert of the list, and the firing ones that an error names by another runbook.

    A driver that failed for such an error also fires as `StreamNotRunning`, since a ticket alone wakes no one.
    """
    severities = {spec.name: spec.severity for spec in ALERTS}
    firing = {alert.name: alert.severity for alert in status.alerts if _RUNBOOK_NAME.match(alert.name)}
    if status.driver is not None and status.driver.state == "FAILED" and set(firing) - set(severities):
        firing["StreamNotRunning"] = make_alert("StreamNotRunning", "").severity
    for name, severity in {**firing, **severities}.items():
        if name in firing or name not in status.undecided:
            yield MetricSample("cutover_alert_firing", (status.pipeline, name, severity), float(name in firing))


def write_metrics_file(settings: Settings, status: WatchStatus) -> None:
    """Replace the text file of metrics of a pipeline; a file that cannot be written is a warning."""
    metrics.write_text_file(settings, "watch", status.pipeline, render_samples(list_metrics(status)))


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
