"""How long topics keep their records, beside how long it takes to read them again."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from cutover.lake.epochs.epoch_log import EpochRecord


def shortest(times: Iterable[timedelta | None]) -> timedelta | None:
    """Return the shortest of the times for which topics keep their records; None: for ever."""
    return min((time for time in times if time is not None), default=None)


def retention(config: Mapping[str, str]) -> timedelta | None:
    """Return how long a topic keeps every record: None for ever, zero if it is compacted or bounded by size."""
    is_bounded = int(config.get("retention.bytes", "-1")) >= 0
    if "compact" in config.get("cleanup.policy", "delete") or is_bounded:
        return timedelta(0)
    kept = int(config.get("retention.ms", "-1"))
    return None if kept < 0 else timedelta(milliseconds=kept)


def replay_time(records: Sequence[EpochRecord], to_read: int) -> timedelta | None:
    """Return how long reading a number of records takes, at the pace of the epochs so far; None before the first."""
    read = sum(record.records for record in records)
    spent = sum(record.seconds for record in records if record.records)
    return None if read == 0 or spent == 0 else timedelta(seconds=spent / read * to_read)
