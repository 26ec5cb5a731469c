"""What has to come after an epoch: its number, and the offset at which it starts in each partition.

The one meaning of "follows" for whoever writes an epoch, looks for its records in the log, or checks those written.
"""

from collections.abc import Iterable, Iterator, Mapping

from cutover.lake.control import losses
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.journal_rows import Loss


def next_number(record: EpochRecord | None) -> int:
    """Return the number of the epoch after a record's; 0 where there is none yet."""
    return 0 if record is None else record.epoch + 1


def expect_start(
    record: EpochRecord | None, accepted: Iterable[Loss], topic_id: str, *, epoch: int | None = None
) -> dict[int, int]:
    """Return partition -> offset at which the epoch after a record starts; a partition not named starts at 0.

    Where there is no record, only losses name any: the others start where the log begins.

    Args:
        record: Whose end is continued; None: there is no epoch yet.
        accepted: Recorded losses of the version; those of this epoch and topic id take the place of the end.
        topic_id: Of the log that the epoch is read from.
        epoch: Its number, where it may be another one than the next.
    """
    ends = {} if record is None else dict(record.end)
    return ends | losses.skips(accepted, next_number(record) if epoch is None else epoch, topic_id)


def find_breaks(start: Mapping[int, int], expected: Mapping[int, int]) -> Iterator[int]:
    """Yield the partitions, ascending, that an epoch does not start where it should, or lacks."""
    return (partition for partition, offset in sorted(expected.items()) if start.get(partition) != offset)


def follows(record: EpochRecord | None, epoch_record: EpochRecord, accepted: Iterable[Loss] = ()) -> bool:
    """Return whether an epoch follows a record: the next number, the same offsets, or those behind recorded losses.

    Partitions that are new are not judged.
    """
    expected = expect_start(record, accepted, epoch_record.topic_id)
    return epoch_record.epoch == next_number(record) and not list(find_breaks(epoch_record.start, expected))
