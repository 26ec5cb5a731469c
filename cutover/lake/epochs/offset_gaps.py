"""Next offsets to read that a log does not hold: expired at its beginning, or beyond its end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cutover.lake.control.losses import list_ends
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.epochs.next_epoch import expect_start
from cutover.lake.journal_rows import Loss
from cutover.log.topic_partitions import make_topic_partition


def next_offsets(record: EpochRecord | None, accepted: Sequence[Loss], topic_id: str) -> dict[int, int] | None:
    """Return the offsets at which the next epoch must start; None: where the log begins.

    These are the end of the newest epoch, or the offsets after losses that were recorded for the next one. Other
    partitions start at 0.
    """
    if record is None and not list_ends(accepted):
        return None
    return expect_start(record, accepted, topic_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetGap:
    """Partition that does not hold the next offset to read."""

    partition: int
    expected: int  # offset
    first: int | None  # first offset that it still holds; None: the partition does not exist
    end: int | None  # its next offset

    @property
    def is_short(self) -> bool:
        """Return whether the log ends before the offset, or lacks the partition: new records will reuse its offsets."""
        return self.end is None or self.expected > self.end

    @property
    def text(self) -> str:
        """Describe the expected offset and what the log holds."""
        if self.first is None or self.end is None:
            return f"expected offset {self.expected}, is not there"
        make_topic_partition, missing = (
            ("ends", self.expected - self.end) if self.is_short else ("starts", self.first - self.expected)
        )
        at = self.end if self.is_short else self.first
        return f"expected offset {self.expected}, log {make_topic_partition} at {at}: {missing} offsets are gone"


def find_missing(
    next_offsets: Mapping[int, int], *, earliest: Mapping[int, int], latest: Mapping[int, int]
) -> tuple[OffsetGap, ...]:
    """Find the partitions that do not hold their next offset, by number."""
    holes = (
        OffsetGap(partition=p, expected=offset, first=earliest.get(p), end=latest.get(p))
        for p, offset in sorted(next_offsets.items())
    )
    return tuple(hole for hole in holes if hole.is_short or hole.first is None or hole.expected < hole.first)


def format_gaps(log: str, holes: Sequence[OffsetGap]) -> str:
    """Describe the gaps of a log's partitions, by topic."""
    by_topic: dict[str, list[str]] = {}
    for hole in holes:
        at = make_topic_partition(log, hole.partition)
        by_topic.setdefault(str(at.topic), []).append(f"partition {at.partition}: {hole.text}")
    return ". ".join(f"Topic {topic}, {'; '.join(texts)}" for topic, texts in by_topic.items())
