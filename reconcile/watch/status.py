"""Status of a stream as `cutover watch` shows it and exports it to Prometheus; made from the facts alone."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from cutover import metrics
from cutover.definition.model.pipeline import Pipeline
from cutover.driver_state import DriverState
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.log.topic_partitions import format_partition_number
from cutover.metrics import MetricSample, render_samples
from cutover.reconcile.result.text import count_noun, share
from cutover.reconcile.watch.alerts.catalogue import ALERTS, evaluate_alerts, make_alert
from cutover.reconcile.watch.facts import Alert, UnknownFact, WatchFacts
from cutover.reconcile.watch.lag import (
    LagLimits,
    LagSample,
    LagVerdict,
    PartitionLag,
    WatermarkVerdict,
    compute_max_ahead_micros,
    evaluate_lag,
    evaluate_watermark,
    list_partition_lags,
)
from cutover.settings import AlertSettings, Settings

LATE_SHARE_EPOCHS = 200
"""Newest epochs that the late share is computed from."""

TREND_SAMPLES = 10
"""Newest samples by which the backlog and the watermark are evaluated."""

_RUNBOOK_NAME = re.compile(r"[A-Z][A-Za-z]{0,62}\Z")  # a driver's file may name any


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
