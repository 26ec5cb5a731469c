"""Cuts that two streams have in common: epochs of both that end at the same offsets of the same log."""

from collections.abc import Mapping, Sequence

from cutover.errors import LakeError
from cutover.lake.epochs import prefix
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord


def find_common_cut(first: Sequence[EpochRecord], second: Sequence[EpochRecord]) -> tuple[int, int] | None:
    """Return the newest epochs of two streams that end at the same offsets of the same log; None: there are none."""
    ends = {_key(record): record.epoch for record in first}
    return next(((ends[_key(one)], one.epoch) for one in reversed(second) if _key(one) in ends), None)


def find_readable_cut(first: EpochLog, second: EpochLog) -> tuple[int, int] | None:
    """Return the newest common cut; None also where later epochs were merged into one of it, so that it is no more."""
    epochs = find_common_cut(first.records(), second.records())
    if epochs is None or any(_is_folded(log, epoch) for log, epoch in zip((first, second), epochs, strict=True)):
        return None
    return epochs


def is_ahead(record: EpochRecord, other: EpochRecord) -> bool:
    """Return whether an epoch has read all that another one has, of the same log, in every partition."""
    return record.topic_id == other.topic_id and all(record.end.get(p, 0) >= end for p, end in other.end.items())


def drop_zeros(offsets: Mapping[int, int]) -> dict[int, int]:
    """Return offsets without partitions of which nothing was read: an older epoch does not name those added since."""
    return {partition: offset for partition, offset in offsets.items() if offset}


def find_newest(epoch_log: EpochLog) -> EpochRecord:
    """Return the newest epoch.

    Raises:
        LakeError: There is none.
    """
    records = epoch_log.records()
    if not records:
        msg = f"Epoch log `{epoch_log.table.table_uri}`: expected an epoch, it has none yet."
        raise LakeError(msg + "\nHint: its driver is to commit one first.")
    return records[-1]


def _key(record: EpochRecord) -> tuple[object, ...]:
    return (record.topic_id, *sorted(drop_zeros(record.end).items()))


def _is_folded(log: EpochLog, epoch: int) -> bool:
    return bool(prefix.find_folded_classes(log, [record for record in log.records() if record.epoch <= epoch]))
