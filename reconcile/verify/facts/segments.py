"""Which epochs the accepted rows of one number stand for: rows that were folded carry the last epoch's."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.records.classes import Class


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Epochs `first` to `last`: all accepted pairs of these stand in rows that carry `last`."""

    first: int
    last: int


def segments(records: Sequence[EpochRecord], labels: Iterable[int]) -> tuple[Segment, ...]:
    """Return the epochs behind each number that accepted rows carry, ascending.

    A fold leaves no rows under the epochs that it takes in but the last, so rows stand for all epochs since the number
    before theirs. Epochs at the beginning of it that counted nothing are left out: what is known of a segment's
    first epoch (its watermark) is the sharper the later it is.
    """
    borders = sorted(set(labels))
    return tuple(
        Segment(first=_first(records, before, border), last=border)
        for before, border in zip([-1, *borders], borders, strict=False)
    )


def _first(records: Sequence[EpochRecord], before: int, last: int) -> int:
    busy = (r.epoch for r in records if before < r.epoch <= last and r.counts.get(Class.ACCEPTED, 0))
    return min(busy, default=last)
