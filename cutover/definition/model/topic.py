"""The topic that a pipeline reads, and how its records are read."""

from dataclasses import dataclass
from typing import Literal

TimeFormat = Literal["iso", "seconds", "millis"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """Where the records come from: one Kafka topic with JSON objects as values."""

    name: str
    schema: str  # Spark DDL: `seq bigint NOT NULL, carrier string, event_time timestamp`
    event_time: str  # the timestamp column by which records fall into windows
    log_time: str | None = None  # the timestamp column that `produce` takes the log timestamp from
    time_format: TimeFormat = "iso"  # how the JSON writes a timestamp
    max_value_bytes: int = 1_000_000  # a larger value is malformed(too_large)
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    record_id: str | None = None  # the NOT NULL column by which a record sent twice is known: counted once
    id_horizon: str | None = None  # how far behind the watermark ids are remembered; None: as long as a window is open
