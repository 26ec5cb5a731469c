"""Offsets that come next and that a log does not hold: gone at its beginning, or beyond its end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cutover.lake.control.losses import list_ends
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.epochs.next_epoch import expect_start
from cutover.lake.journal_rows import Loss
from cutover.log.topic_partitions import place


def next_offsets(record: EpochRecord | None, accepted: Sequence[Loss], topic_id: str) -> dict[int, int] | None:
    """Return the offsets that the next epoch must start at; None: where the log begins.

    The end of the newest epoch, or behind the losses that were recorded for the next one. Partitions that are not named
    start at 0.
    """
    if record is None and not list_ends(accepted):
        return None
    return expect_start(record, accepted, topic_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetGap:
    """A partition that does not hold the offset which comes next."""

    partition: int
    expected: int  # offset
    first: int | None  # that it still holds; None: the partition is not there
    end: int | None  # its next offset

    @property
    def is_short(self) -> bool:
        """Return whether the log ends before the offset, or has no such partition: its offsets will come again."""
        return self.end is None or self.expected > self.end

    @property
    def text(self) -> str:
        """Return what was expected and what is there."""
        if self.first is None or self.end is None:
            return f"expected offset {self.expected}, is not there"
        place, gone = ("ends", self.expected - self.end) if self.is_short else ("starts", self.first - self.expected)
        at = self.end if self.is_short else self.first
        return f"expected offset {self.expected}, log {place} at {at}: {gone} offsets are gone"


def find_missing(
    wanted: Mapping[int, int], *, earliest: Mapping[int, int], latest: Mapping[int, int]
) -> tuple[OffsetGap, ...]:
    """Return the partitions that do not hold the wanted offsets, by number."""
    holes = (
        OffsetGap(partition=p, expected=offset, first=earliest.get(p), end=latest.get(p))
        for p, offset in sorted(wanted.items())
    )
    return tuple(hole for hole in holes if hole.is_short or hole.first is None or hole.expected < hole.first)


def format_gaps(log: str, holes: Sequence[OffsetGap]) -> str:
    """Return in words which partitions of a log lack what, by topic."""
    by_topic: dict[str, list[str]] = {}
    for hole in holes:
        at = place(log, hole.partition)
        by_topic.setdefault(str(at.topic), []).append(f"partition {at.partition}: {hole.text}")
    return ". ".join(f"Topic {topic}, {'; '.join(texts)}" for topic, texts in by_topic.items())
