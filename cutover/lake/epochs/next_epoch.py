"""Successor of an epoch: its number, and the offset at which it starts in each partition.

One definition for the code that writes an epoch, reads its records from the log, or checks the written ones.
"""

from collections.abc import Iterable, Iterator, Mapping

from cutover.lake.control import losses
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.journal_rows import Loss


def next_number(record: EpochRecord | None) -> int:
    """Return the number of the epoch after a record; 0 if there is no epoch yet."""
    return 0 if record is None else record.epoch + 1


def expect_start(
    record: EpochRecord | None, accepted: Iterable[Loss], topic_id: str, *, epoch: int | None = None
) -> dict[int, int]:
    """Return partition -> offset at which the epoch after a record starts; other partitions start at 0.

    Without a record, only losses name offsets: the other partitions start where the log begins.

    Args:
        record: Record of the previous epoch; None: there is no epoch yet.
        accepted: Recorded losses of the version; those of this epoch and topic id replace the end of the record.
        topic_id: Topic id of the log from which the epoch is read.
        epoch: Number of the epoch, if it may not be the next one.
    """
    ends = {} if record is None else dict(record.end)
    return ends | losses.find_start_offsets(accepted, next_number(record) if epoch is None else epoch, topic_id)


def find_breaks(start: Mapping[int, int], expected: Mapping[int, int]) -> Iterator[int]:
    """Yield the partitions, ascending, that an epoch lacks or starts at another offset than expected."""
    return (partition for partition, offset in sorted(expected.items()) if start.get(partition) != offset)


def follows(record: EpochRecord | None, epoch_record: EpochRecord, accepted: Iterable[Loss] = ()) -> bool:
    """Return whether an epoch follows a record: the next number, and the same offsets or those after recorded losses.

    New partitions are not checked.
    """
    expected = expect_start(record, accepted, epoch_record.topic_id)
    return epoch_record.epoch == next_number(record) and not list(find_breaks(epoch_record.start, expected))
