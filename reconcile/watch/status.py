"""What `cutover watch` shows: one frozen value made from the samples."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from cutover.definition.model.pipeline import Pipeline
from cutover.driver_state import DriverState
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.reconcile.watch import lag
from cutover.reconcile.watch.alerts.catalogue import evaluate
from cutover.reconcile.watch.alerts.spec import Alert
from cutover.reconcile.watch.facts import UnknownFact, WatchFacts
from cutover.reconcile.watch.lag import Lag, LagSample, Limits, PartitionLag, Time
from cutover.settings import AlertSettings

SHARED = 200
"""Epochs over which the late share is told."""

TREND = 10
"""Looks by which the backlog and the watermark are judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchStatus:
    """How a stream does."""

    pipeline: str
    at: str  # ISO 8601, UTC
    verdict: str  # one word
    watermark_verdict: str  # one word, `HELD_BY 2` names the partition
    epoch: int | None  # None: before the first, or the table cannot be read
    unread: int | None  # None: the log does not answer
    partitions: tuple[PartitionLag, ...]
    watermark: int | None  # microseconds
    newest_event: int | None  # microseconds
    watermark_lag_seconds: float | None  # newest event seen - watermark
    late_share: float | None  # late / (accepted + late), of the newest epochs; None: the table cannot be read
    late_epochs: int  # how many those are
    driver: DriverState | None  # None: its heartbeat cannot be read
    alerts: tuple[Alert, ...] = ()  # that fire now, the most urgent first
    undecided: tuple[str, ...] = ()  # alerts that may fire: a fact that they need cannot be read

    def to_json(self) -> dict[str, Any]:
        """Fields by name, as `watch --json` prints them."""
        return asdict(self)


def limits(pipeline: Pipeline, bounds: AlertSettings) -> Limits:
    """Return what a definition says about pace and time."""
    return Limits(
        max_rows_per_epoch=pipeline.max_rows_per_epoch,
        idle_after=timedelta(microseconds=pipeline.lateness.idle_after_micros),
        ahead_micros=lag.ahead_micros(pipeline, bounds),
        stalled_after=timedelta(seconds=bounds.stalled_seconds),
    )


def status(facts: WatchFacts) -> WatchStatus:
    """Sum up lag, watermark, late share and alerts, by the facts alone."""
    is_readable = not isinstance(facts.records, UnknownFact)
    records = () if isinstance(facts.records, UnknownFact) else facts.records[-SHARED:]
    newest = records[-1] if records else None
    evaluation = evaluate(facts)
    verdict, time, parts = _judge_lag(facts)
    watermark = None if newest is None else newest.watermark_after
    seen = None if newest is None else max(newest.max_event.values(), default=None)
    return WatchStatus(
        pipeline=facts.pipeline.name,
        at=facts.at.isoformat(timespec="seconds"),
        verdict=str(verdict),
        watermark_verdict=time,
        epoch=None if newest is None else newest.epoch,
        unread=lag.count_unread(facts.look) if isinstance(facts.look, LagSample) else None,
        partitions=parts,
        watermark=watermark,
        newest_event=seen,
        watermark_lag_seconds=None if watermark is None or seen is None else (seen - watermark) / 1e6,
        late_share=late_share(records) if is_readable else None,
        late_epochs=len(records),
        driver=None if isinstance(facts.driver, UnknownFact) else facts.driver,
        alerts=evaluation.alerts,
        undecided=evaluation.undecided,
    )


def _judge_lag(facts: WatchFacts) -> tuple[Lag, str, tuple[PartitionLag, ...]]:
    """Return one word on the stream, one on the watermark, and the partitions."""
    samples, bounds = facts.samples[-TREND:], limits(facts.pipeline, facts.limits)
    if not isinstance(facts.look, LagSample):
        return Lag.UNKNOWN, str(Time.UNKNOWN), ()
    verdict = lag.judge(samples, bounds)
    time, partition = lag.judge_time(samples, bounds, facts.quiet_seconds)
    word = str(time) if partition is None else f"{time} {partition}"
    return verdict, word, lag.partitions(samples, verdict)


def late_share(records: Sequence[EpochRecord]) -> float:
    """Return late / (accepted + late) pairs of some epochs; 0 without any."""
    late = sum(record.counts.get("late", 0) for record in records)
    accepted = sum(record.counts.get("accepted", 0) for record in records)
    return late / (late + accepted) if late + accepted else 0.0
