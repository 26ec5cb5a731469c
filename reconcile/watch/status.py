"""What `cutover watch` shows: one frozen value made from the samples."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from cutover.definition.pipeline import Pipeline
from cutover.lake.epochs import EpochRecord
from reconcile.watch import advice, lag
from reconcile.watch.advice import Advice
from reconcile.watch.lag import Driver, Limits, PartitionLag, Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How a stream does."""

    pipeline: str
    at: str  # ISO 8601, UTC
    verdict: str  # one word
    watermark_verdict: str  # one word, `HELD_BY 2` names the partition
    epoch: int
    unread: int
    partitions: tuple[PartitionLag, ...]
    watermark: int | None  # microseconds
    newest_event: int | None  # microseconds
    watermark_lag_seconds: float | None  # newest event seen - watermark
    late_share: float  # late / (accepted + late), of the newest epochs
    late_epochs: int  # how many those are
    driver: Driver
    advice: tuple[Advice, ...] = ()  # pages to open, with the reason

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        return asdict(self)


def limits(pipeline: Pipeline) -> Limits:
    """Return what a definition says about pace and time."""
    lateness = pipeline.lateness
    return Limits(
        max_rows_per_epoch=pipeline.max_rows_per_epoch,
        idle_after=timedelta(microseconds=lateness.idle_after_micros),
        ahead_micros=lateness.max_ahead_micros - lateness.out_of_orderness_micros,
    )


def status(pipeline: Pipeline, samples: Sequence[Sample], records: Sequence[EpochRecord]) -> Status:
    """Return the status from samples in order of time and the newest epochs."""
    newest, bounds = samples[-1], limits(pipeline)
    verdict = lag.judge(samples, bounds)
    time, holder = lag.judge_time(samples, bounds)
    watermark, seen = newest.epoch.watermark_after, max(newest.epoch.max_event.values(), default=None)
    share = late_share(records)
    behind = None if watermark is None or seen is None else (seen - watermark) / 1e6
    return Status(
        pipeline=pipeline.name,
        at=newest.at.isoformat(timespec="seconds"),
        verdict=str(verdict),
        watermark_verdict=str(time) if holder is None else f"{time} {holder}",
        epoch=newest.epoch.epoch,
        unread=lag.unread(newest),
        partitions=lag.partitions(samples, verdict),
        watermark=watermark,
        newest_event=seen,
        watermark_lag_seconds=behind,
        late_share=share,
        late_epochs=len(records),
        driver=newest.driver,
        advice=(
            *advice.of_lag(verdict, newest.driver),
            *advice.of_records(records, share, pipeline.policy),
            *advice.of_disk(newest.free),
        ),
    )


def late_share(records: Sequence[EpochRecord]) -> float:
    """Return late / (accepted + late) pairs of some epochs; 0 without any."""
    late = sum(record.counts.get("late", 0) for record in records)
    accepted = sum(record.counts.get("accepted", 0) for record in records)
    return late / (late + accepted) if late + accepted else 0.0
