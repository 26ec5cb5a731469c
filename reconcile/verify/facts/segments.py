"""Segments of epochs whose accepted rows share one epoch number: folded rows carry the number of the last epoch."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.records.classes import Class


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Consecutive epochs whose accepted pairs are all in rows that carry the last epoch's number."""

    first_epoch: int
    last_epoch: int


def segments(records: Sequence[EpochRecord], labels: Iterable[int]) -> tuple[Segment, ...]:
    """Split epochs into a segment for each epoch number that accepted rows carry, ascending.

    A fold leaves rows only under the last of its epochs, so rows cover all epochs since the preceding number. Leading
    epochs that counted nothing are left out: the later the first epoch of a segment, the tighter its watermark bounds
    the rows.
    """
    borders = sorted(set(labels))
    return tuple(
        Segment(first_epoch=_find_first_epoch(records, previous, border), last_epoch=border)
        for previous, border in zip([-1, *borders], borders, strict=False)
    )


def _find_first_epoch(records: Sequence[EpochRecord], previous: int, border: int) -> int:
    counting = (r.epoch for r in records if previous < r.epoch <= border and r.counts.get(Class.ACCEPTED, 0))
    return min(counting, default=border)
