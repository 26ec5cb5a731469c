"""Facts of a healthy stream, with the changes of one test."""

from datetime import UTC, datetime, timedelta
from typing import Any

from cutover.definition import Count, Fixed, Lateness, Pipeline, Policy, Topic
from cutover.driver_state import DriverState
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.reconcile.watch.facts import LagSample, WatchFacts
from cutover.settings import AlertSettings

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
MICROS = int(NOW.timestamp()) * 1_000_000
RUNNING = DriverState(alive=True, state="RUNNING")
PIPELINE = Pipeline(
    name="clicks",
    source=Topic(name="clicks", schema="k string, at timestamp NOT NULL", event_time="at"),
    key=("k",),
    window=Fixed(minutes=10),
    measures={"clicks": Count()},
    lateness=Lateness(out_of_orderness="1 minute", idle_after="1 minute", max_ahead="1 hour"),
    policy=Policy(max_late_share=0.01, max_malformed_share=0.01, max_future_share=0.01),
)


def ago(seconds: float) -> str:
    """Return an ISO time before the moment of the facts."""
    return (NOW - timedelta(seconds=seconds)).isoformat()


def make_epoch(number: int = 7, *, age: float = 1.0, **changes: Any) -> EpochRecord:
    """Make an epoch that was committed `age` seconds ago."""
    defaults: dict[str, Any] = {
        "epoch": number,
        "run_id": "r",
        "topic": "clicks",
        "topic_id": "T",
        "cluster_id": "C",
        "start": {0: 40, 1: 40},
        "end": {0: 50, 1: 50},
        "max_event": {0: MICROS, 1: MICROS},
        "watermark_before": None,
        "watermark_after": MICROS - 60_000_000,
        "counts": {"accepted": 100},
        "records": 100,
        "processing_time": ago(age),
    }
    return EpochRecord(**{**defaults, **changes})


def make_sample(newest: EpochRecord | None = None, *, age: float = 0.0, **changes: Any) -> LagSample:
    """Make a sample of `age` seconds ago, of a log that is read completely."""
    defaults: dict[str, Any] = {
        "at": NOW - timedelta(seconds=age),
        "monotonic": -age,
        "epoch": newest or make_epoch(),
        "end_offsets": {0: 50, 1: 50},
        "high_watermarks": {0: 50, 1: 50},
        "start_offsets": {0: 0, 1: 0},
        "topic_id": "T",
        "driver": RUNNING,
        "newest_times": {0: MICROS, 1: MICROS},
    }
    return LagSample(**{**defaults, **changes})


def make_facts(*, sampled: dict[str, Any] | None = None, **changes: Any) -> WatchFacts:
    """Make the facts of a healthy stream with some changes, `sampled` those of its only sample."""
    epochs = changes.pop("epochs", (make_epoch(),))
    defaults: dict[str, Any] = {
        "pipeline": PIPELINE,
        "limits": AlertSettings(),
        "at": NOW,
        "driver": RUNNING,
        "epochs": epochs,
        "samples": (make_sample(epochs[-1], **(sampled or {})),) if epochs else (),
        "next_offsets": dict(epochs[-1].end) if epochs else {},
        "free_bytes": {"lake": 100 << 30},
    }
    return WatchFacts(**{**defaults, **changes})
