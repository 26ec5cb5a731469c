"""Version of a dimension that each record was joined with, by its place in the log, as epochs and batch runs record it.

Pure.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from cutover.json_text import EXACT
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.records.reading.scan import Offsets

END = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class VersionSpan:
    """Offsets `[first, next)` of one partition that are joined with one version of a dimension."""

    __pydantic_config__ = EXACT

    partition: int
    first: int
    next: int
    version: int
    table_id: str
    instead_of: int | None = None  # the version that the stream recorded, if it can no longer be read


def list_recorded_spans(records: Iterable[EpochRecord], name: str) -> tuple[VersionSpan, ...]:
    """List the spans that epochs recorded for a lookup, by partition and offset; neighbours are merged."""
    spans = (
        VersionSpan(
            partition=partition,
            first=record.start.get(partition, 0),
            next=end,
            version=record.dimensions[name],
            table_id=record.dimension_ids[name],
        )
        for record in records
        if name in record.dimensions
        for partition, end in record.end.items()
        if record.start.get(partition, 0) < end
    )
    return merge_spans(spans)


def merge_spans(spans: Iterable[VersionSpan]) -> tuple[VersionSpan, ...]:
    """Merge adjacent spans of one version; the result is ordered by partition and offset."""
    merged: list[VersionSpan] = []
    for span in sorted(spans):
        longer = replace(merged[-1], next=span.next) if merged and merged[-1].next == span.first else None
        if longer is not None and longer == replace(span, first=longer.first):
            merged[-1] = longer
        else:
            merged.append(span)
    return tuple(merged)


def spans_to_read(
    spans: Sequence[VersionSpan], reads: Iterable[Offsets], newest: tuple[int, str]
) -> tuple[VersionSpan, ...]:
    """Cover all offsets that are to be read, each by the version that it is joined with.

    A record that no epoch read (it was lost, or expired before the version began) is joined as the next epoch was.

    Args:
        spans: Spans that the epochs recorded.
        reads: Partition -> `[from, to)`, disjoint.
        newest: Version and table id for partitions without a recorded span.
    """
    spans_by_partition = _stretch_spans(spans)
    version, table_id = newest
    clipped: list[VersionSpan] = []
    for offsets in reads:
        for partition, (start, end) in offsets.items():
            default = [VersionSpan(partition=partition, first=0, next=END, version=version, table_id=table_id)]
            clipped += _clip_spans(spans_by_partition.get(partition, default), start, end)
    return merge_spans(clipped)


def _stretch_spans(spans: Sequence[VersionSpan]) -> dict[int, list[VersionSpan]]:
    """Return the spans of each partition, stretched so that together they hold every offset."""
    stretched: dict[int, list[VersionSpan]] = defaultdict(list)
    for span in sorted(spans):
        previous_end = stretched[span.partition][-1].next if stretched[span.partition] else 0
        stretched[span.partition].append(replace(span, first=previous_end))
    for of_partition in stretched.values():
        of_partition[-1] = replace(of_partition[-1], next=END)
    return stretched


def _clip_spans(spans: Iterable[VersionSpan], start: int, end: int) -> list[VersionSpan]:
    clipped = (replace(s, first=max(s.first, start), next=min(s.next, end)) for s in spans)
    return [span for span in clipped if span.first < span.next]


def version_at(spans: Sequence[VersionSpan], partition: int, offset: int) -> tuple[int, str]:
    """Return the version that a record is joined with, and the id of its table; see `spans_to_read`.

    Raises:
        KeyError: The partition has no span.
    """
    span = next(s for s in _stretch_spans(spans)[partition] if s.first <= offset < s.next)
    return span.version, span.table_id


def find_diverging_offsets(
    streaming_spans: Sequence[VersionSpan], batch_spans: Sequence[VersionSpan]
) -> tuple[tuple[int, int, int], ...]:
    """Return the offsets (partition, first, next) that two sides joined with different versions."""
    diverging = []
    for span in streaming_spans:
        for other in batch_spans:
            start, end = max(span.first, other.first), min(span.next, other.next)
            is_same = (span.version, span.table_id) == (other.version, other.table_id)
            if span.partition == other.partition and start < end and not is_same:
                diverging.append((span.partition, start, end))
    return tuple(sorted(diverging))


def list_replaced_versions(spans: Mapping[str, Sequence[VersionSpan]]) -> dict[str, list[int]]:
    """List, by lookup, the recorded versions that were replaced by another one when records were read."""
    return {
        name: sorted({span.instead_of for span in of if span.instead_of is not None})
        for name, of in spans.items()
        if any(span.instead_of is not None for span in of)
    }
