"""Check N3, no gap and no overlap: every offset up to the newest epoch belongs to exactly one epoch.

All epochs have one topic id; epoch e + 1 starts where epoch e ended, in every partition; a new partition starts at 0,
and no partition disappears; epochs 0 to E have no gap; the table's transaction is E; no reader has seen a later epoch.
The check uses the rows of the epochs, which survive clean-up and compaction. The functions yield sentences, also for
the seal.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.epochs.next_epoch import expect_start, find_breaks
from cutover.lake.journal_rows import Loss
from cutover.log.topic_partitions import format_partition


def describe_number_gaps(stream: str, records: Sequence[EpochRecord], transaction: int | None) -> Iterator[str]:
    """Yield a sentence if the transaction differs from the newest number, or a number is missing or duplicated."""
    epochs = [record.epoch for record in records]
    newest = max(epochs, default=-1)
    if (-1 if transaction is None else transaction) != newest:
        yield f"Epoch log of {stream}: transaction says {transaction}, newest epoch row is {newest}."
    missing = sorted(set(range(newest + 1)) - set(epochs))
    if missing or len(set(epochs)) != len(epochs):
        text = f"Epoch log of {stream}: expected epochs 0 to {newest} once each, got {len(epochs)} rows"
        yield text + (f", epoch {missing[0]} is missing." if missing else ".")


def describe_offset_breaks(stream: str, records: Sequence[EpochRecord], losses: Sequence[Loss]) -> Iterator[str]:
    """Yield each epoch and partition that does not continue the previous epoch, ends before it starts, or is missing.

    Only a recorded loss permits it: in its first epoch, in its partition, and up to the offset that it names.
    """
    for record in records[:1]:
        yield from _describe_offset_breaks_of_epoch(
            stream, record, dict(record.start)
        )  # the first epoch starts where the log began
    for previous, record in pairwise(records):
        new = dict.fromkeys(set(record.start) - set(previous.end), 0)
        expected = expect_start(previous, losses, record.topic_id, epoch=record.epoch)
        yield from _describe_offset_breaks_of_epoch(stream, record, new | expected)


def _describe_offset_breaks_of_epoch(stream: str, record: EpochRecord, expected: Mapping[int, int]) -> Iterator[str]:
    breaks = set(find_breaks(record.start, expected))
    for p, offset in sorted(expected.items()):
        start, end = record.start.get(p), record.end.get(p)
        if p in breaks or end is None or end < offset:
            place = format_partition(record.topic, p)
            text = f"Epoch log of {stream}: epoch {record.epoch}, {place}: expected to start at"
            yield f"{text} {offset}, got {start} (end {end})."


def describe_log_changes(stream: str, records: Sequence[EpochRecord]) -> Iterator[str]:
    """Yield each epoch that read another log than the previous epoch."""
    for previous, record in pairwise(records):
        expected, actual = (previous.cluster_id, previous.topic_id), (record.cluster_id, record.topic_id)
        if expected != actual:
            text = f"Epoch log of {stream}: epoch {record.epoch}: expected topic id {expected[1]} of cluster"
            yield text + f" {expected[0]}, got {actual[1]} of {actual[0]}."
