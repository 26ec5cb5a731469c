"""Gaps of a landed copy compared with the log: offsets without a record are no gaps, and records that are missing are.

A gap is explained if the log still has all of its offsets, and no committed record at any of them: they are markers of
transactions, aborted records, or compacted ones. Records that retention has deleted cannot be told from lost ones.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace

from cutover.counts import count_clause
from cutover.log.kafka import LogClient
from cutover.positions.landed_copy import LandedCopy, LandedGap, LandedPartition
from cutover.positions.log_check import TopicBounds

_ISOLATIONS = ("read_committed", "read_uncommitted")


def compare_gaps(client: LogClient, copy: LandedCopy, bounds: dict[str, TopicBounds]) -> tuple[LandedCopy, list[str]]:
    """Remove the explained gaps of a copy, and count its last files' records in the log; the texts say what was found.

    Raises:
        LogError: No broker responds.
    """
    notes = list[str]()
    partitions = []
    for partition in copy.partitions:
        topic_bounds = bounds.get(partition.topic)
        if topic_bounds is None or partition.partition not in topic_bounds.ends:
            partitions.append(partition)
            continue
        place = f"{partition.topic}, partition {partition.partition}"
        gaps = tuple(_list_unexplained(client, partition, topic_bounds))
        explained = len(partition.gaps) - len(gaps)
        if explained:
            notes.append(f"{place}: {count_clause(explained, 'gap', 'has', 'have')} no record in the log.")
        earliest = topic_bounds.earliest[partition.partition]
        if earliest < partition.first and _has_record(client, partition, (earliest, partition.first)):
            notes.append(f"{place}: the log has records before the copy begins, from offset {earliest}.")
        partitions.append(_count_last_file(client, replace(partition, gaps=gaps), topic_bounds))
    return replace(copy, partitions=tuple(partitions)), notes


def _list_unexplained(client: LogClient, partition: LandedPartition, bounds: TopicBounds) -> Iterator[LandedGap]:
    """Yield the gaps that hold records, from the first one of them, and those that the log no longer has."""
    earliest, end = bounds.earliest[partition.partition], bounds.ends[partition.partition]
    kept = [gap for gap in partition.gaps if gap.start >= earliest and gap.end <= end]
    counted = [gap for gap in kept if gap.missing is not None]
    committed, uncommitted = (
        _list_offsets_in(client, partition, gaps, isolation)
        for gaps, isolation in zip((kept, counted), _ISOLATIONS, strict=True)
    )
    for gap in partition.gaps:
        offsets = committed.get(gap)
        if offsets is None:
            yield gap
        elif gap.missing is None:
            if offsets:
                yield replace(gap, start=offsets[0])
        elif gap.end - gap.start - gap.missing not in {len(offsets), len(uncommitted[gap])}:
            yield gap


def _list_offsets_in(
    client: LogClient, partition: LandedPartition, gaps: Sequence[LandedGap], isolation: str
) -> dict[LandedGap, list[int]]:
    """List the offsets of the records in gaps, by one read from the first gap to the last."""
    offsets: dict[LandedGap, list[int]] = {gap: [] for gap in gaps}
    if not gaps:
        return offsets
    starts = [gap.start for gap in gaps]
    ranges = {partition.partition: (starts[0], gaps[-1].end)}
    for _, offset, _ in client.positions(partition.topic, ranges, isolation):
        gap = gaps[bisect_right(starts, offset) - 1]
        if offset < gap.end:
            offsets[gap].append(offset)
    return offsets


def _has_record(client: LogClient, partition: LandedPartition, offset_range: tuple[int, int]) -> bool:
    ranges = {partition.partition: offset_range}
    return next(client.positions(partition.topic, ranges, _ISOLATIONS[0]), None) is not None


def _count_last_file(client: LogClient, partition: LandedPartition, bounds: TopicBounds) -> LandedPartition:
    """Find the last offset of the last file by its number of records.

    It stays open if the log no longer has them, or if a reader of uncommitted records finds another offset than one of
    committed ones, since the copy does not show which of them it was.
    """
    if not partition.open_records or partition.next_offset < bounds.earliest[partition.partition]:
        return partition
    span = (partition.next_offset, bounds.ends[partition.partition])
    ends = set[int | None]()
    for isolation in _ISOLATIONS:
        records = client.positions(partition.topic, {partition.partition: span}, isolation)
        ends.add(next((offset + 1 for n, (_, offset, _) in enumerate(records, 1) if n == partition.open_records), None))
    (end, *others) = ends
    return partition if others or end is None else replace(partition, next_offset=end, open_records=0)
