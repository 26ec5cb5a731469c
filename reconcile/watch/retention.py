"""How long topics keep their records, beside how long it takes to read them again."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from cutover.lake.epochs.epoch_log import EpochRecord

_FOR_EVER = timedelta.max // timedelta(milliseconds=1)
"""Longest time that is one; topics that keep records for ever are often given the largest number there is."""


def shortest(times: Iterable[timedelta | None]) -> timedelta | None:
    """Return the shortest of the times for which topics keep their records; None: for ever."""
    return min((time for time in times if time is not None), default=None)


def retention(config: Mapping[str, str]) -> timedelta | None:
    """Return how long a topic keeps every record, as far as time goes: None for ever, zero if it is compacted."""
    if "compact" in config.get("cleanup.policy", "delete"):
        return timedelta(0)
    kept = int(config.get("retention.ms", "-1"))
    return None if kept < 0 or kept > _FOR_EVER else timedelta(milliseconds=kept)


def is_bounded_by_size(config: Mapping[str, str]) -> bool:
    """Return whether a topic lets go of records once a partition is too large, whatever their age."""
    return int(config.get("retention.bytes", "-1")) >= 0


def held_since(records: Sequence[EpochRecord], earliest: Mapping[int, int]) -> datetime | None:
    """Return since when a log has held all that it still has: since the stream read the oldest records, at least.

    Of a log of bounded size this is what its bound has come to so far.

    Args:
        records: Of all epochs, by their numbers.
        earliest: Partition -> first offset that the log still has.

    Returns:
        None where no epoch has read any of it.
    """
    read = []
    for partition, first in earliest.items():
        found = next((one for one in records if one.end.get(partition, 0) > first and one.processing_time), None)
        if found is not None:
            read.append(datetime.fromisoformat(found.processing_time))
    return max(read, default=None)


def replay_time(records: Sequence[EpochRecord], to_read: int) -> timedelta | None:
    """Return how long reading a number of records takes, at the pace of the epochs so far; None before the first."""
    read = sum(record.records for record in records)
    spent = sum(record.seconds for record in records if record.records)
    return None if read == 0 or spent == 0 else timedelta(seconds=spent / read * to_read)
