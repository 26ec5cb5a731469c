"""N3 no gap, no overlap: every offset up to the newest epoch belongs to exactly one epoch.

One topic id for all epochs; epoch e + 1 starts where epoch e ended, in every partition; a partition that is new starts
at 0, none goes away; epochs 0 to E without a hole; the table's transaction is E; no reader has seen a later one.
It is told from the rows of the epochs, which outlive clean-up and compaction. The functions yield sentences; the seal
takes the same ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.epochs.next_epoch import expect_start, find_breaks
from cutover.lake.journal_rows import Loss
from cutover.log.topic_partitions import format_partition


def numbers(stream: str, records: Sequence[EpochRecord], transaction: int | None) -> Iterator[str]:
    """Yield where the transaction and the epochs' numbers do not fit, or a number is missing or there twice."""
    found = [record.epoch for record in records]
    newest = max(found, default=-1)
    if (-1 if transaction is None else transaction) != newest:
        yield f"Epoch log of {stream}: transaction says {transaction}, newest epoch row is {newest}."
    missing = sorted(set(range(newest + 1)) - set(found))
    if missing or len(set(found)) != len(found):
        text = f"Epoch log of {stream}: expected epochs 0 to {newest} once each, got {len(found)} rows"
        yield text + (f", epoch {missing[0]} is missing." if missing else ".")


def joints(stream: str, records: Sequence[EpochRecord], losses: Sequence[Loss]) -> Iterator[str]:
    """Yield each epoch and partition that does not start where the one before ended, ends before it starts, went away.

    A recorded loss is the only excuse: of its first epoch, its partition, and up to the offset that it names.
    """
    for record in records[:1]:
        yield from _find_offset_breaks(stream, record, dict(record.start))  # the first one starts where the log began
    for before, after in pairwise(records):
        new = dict.fromkeys(set(after.start) - set(before.end), 0)
        expected = expect_start(before, losses, after.topic_id, epoch=after.epoch)
        yield from _find_offset_breaks(stream, after, new | expected)


def _find_offset_breaks(stream: str, record: EpochRecord, expected: Mapping[int, int]) -> Iterator[str]:
    breaks = set(find_breaks(record.start, expected))
    for p, offset in sorted(expected.items()):
        start, end = record.start.get(p), record.end.get(p)
        if p in breaks or end is None or end < offset:
            place = format_partition(record.topic, p)
            text = f"Epoch log of {stream}: epoch {record.epoch}, {place}: expected to start at"
            yield f"{text} {offset}, got {start} (end {end})."


def identity(stream: str, records: Sequence[EpochRecord]) -> Iterator[str]:
    """Yield each epoch that read another log than the one before it."""
    for before, after in pairwise(records):
        expected, found = (before.cluster_id, before.topic_id), (after.cluster_id, after.topic_id)
        if expected != found:
            text = f"Epoch log of {stream}: epoch {after.epoch}: expected topic id {expected[1]} of cluster"
            yield text + f" {expected[0]}, got {found[1]} of {found[0]}."
