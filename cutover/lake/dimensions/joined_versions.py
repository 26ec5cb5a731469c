"""Which version of a dimension each record was joined with, by its place in the log: what epochs and batch runs record.

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
    instead_of: int | None = None  # the version that the stream recorded, where that can no longer be read


def list_recorded_spans(records: Iterable[EpochRecord], name: str) -> tuple[VersionSpan, ...]:
    """Return what epochs recorded of a lookup, by partition and offset; neighbours of one version are one span."""
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
    """Return spans by partition and offset, where neighbours differ in more than their offsets."""
    version_spans: list[VersionSpan] = []
    for span in sorted(spans):
        longer = (
            replace(version_spans[-1], next=span.next)
            if version_spans and version_spans[-1].next == span.first
            else None
        )
        if longer is not None and longer == replace(span, first=longer.first):
            version_spans[-1] = longer
        else:
            version_spans.append(span)
    return tuple(version_spans)


def spans_to_read(
    spans: Sequence[VersionSpan], reads: Iterable[Offsets], newest: tuple[int, str]
) -> tuple[VersionSpan, ...]:
    """Cover all offsets that are to be read, each by the version that it is joined with.

    A record that no epoch read (it was lost, or went before the version began) is joined as the epoch after it was.

    Args:
        spans: What the epochs recorded.
        reads: Partition -> `[from, to)`, disjoint.
        newest: Version and table id for a partition of which no epoch recorded anything.
    """
    known = _stretch_spans(spans)
    version, table_id = newest
    version_spans: list[VersionSpan] = []
    for offsets in reads:
        for partition, (first, end) in offsets.items():
            nothing = [VersionSpan(partition=partition, first=0, next=END, version=version, table_id=table_id)]
            version_spans += _clip_spans(known.get(partition, nothing), first, end)
    return merge_spans(version_spans)


def _stretch_spans(spans: Sequence[VersionSpan]) -> dict[int, list[VersionSpan]]:
    """Return the spans of each partition, stretched so that together they hold every offset."""
    found: dict[int, list[VersionSpan]] = defaultdict(list)
    for span in sorted(spans):
        before = found[span.partition][-1].next if found[span.partition] else 0
        found[span.partition].append(replace(span, first=before))
    for of_partition in found.values():
        of_partition[-1] = replace(of_partition[-1], next=END)
    return found


def _clip_spans(spans: Iterable[VersionSpan], first: int, end: int) -> list[VersionSpan]:
    within = (replace(s, first=max(s.first, first), next=min(s.next, end)) for s in spans)
    return [span for span in within if span.first < span.next]


def version_at(spans: Sequence[VersionSpan], partition: int, offset: int) -> tuple[int, str]:
    """Return the version that a record is joined with, and the id of its table; see `spans_to_read`.

    Raises:
        KeyError: Nothing is recorded of the partition.
    """
    span = next(s for s in _stretch_spans(spans)[partition] if s.first <= offset < s.next)
    return span.version, span.table_id


def find_diverging_offsets(
    version_spans: Sequence[VersionSpan], right: Sequence[VersionSpan]
) -> tuple[tuple[int, int, int], ...]:
    """Return the offsets (partition, first, next) that two sides joined with different versions."""
    found = []
    for version_span in version_spans:
        for other in right:
            first, end = max(version_span.first, other.first), min(version_span.next, other.next)
            same = (version_span.version, version_span.table_id) == (other.version, other.table_id)
            if version_span.partition == other.partition and first < end and not same:
                found.append((version_span.partition, first, end))
    return tuple(sorted(found))


def list_replaced_versions(spans: Mapping[str, Sequence[VersionSpan]]) -> dict[str, list[int]]:
    """Return, by lookup, the recorded versions in whose place another one was read."""
    return {
        name: sorted({span.instead_of for span in of if span.instead_of is not None})
        for name, of in spans.items()
        if any(span.instead_of is not None for span in of)
    }
