"""Planning of reads: a few offset ranges per partition that contain all records of some windows. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cutover.records.reading.scan import Offsets

MERGED_GAP = 5_000  # offsets; reading them is cheaper than another Spark job
MAX_RANGES = 8  # ranges per partition, hence Spark reads


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class OffsetSpan:
    """Offsets `[first, last]` of one partition."""

    partition: int
    first_offset: int
    last_offset: int  # inclusive


def plan_reads(spans: Iterable[OffsetSpan], *, max_ranges: int = MAX_RANGES) -> tuple[Offsets, ...]:
    """Plan disjoint reads that together cover every span; each read has at most one range per partition.

    Spans that overlap or are at most `MERGED_GAP` offsets apart are merged. If more than `max_ranges` ranges of a
    partition remain, they are merged over the smallest gaps.
    """
    by_partition: dict[int, list[tuple[int, int]]] = {}
    for span in sorted(spans):
        ranges = by_partition.setdefault(span.partition, [])
        if ranges and span.first_offset <= ranges[-1][1] + MERGED_GAP:
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], span.last_offset + 1))
        else:
            ranges.append((span.first_offset, span.last_offset + 1))
    ranges_by_partition = {partition: _merge_ranges(ranges, max_ranges) for partition, ranges in by_partition.items()}
    read_count = max((len(ranges) for ranges in ranges_by_partition.values()), default=0)
    return tuple(
        {p: ranges[i] for p, ranges in ranges_by_partition.items() if i < len(ranges)} for i in range(read_count)
    )


def _merge_ranges(ranges: Sequence[tuple[int, int]], max_ranges: int) -> list[tuple[int, int]]:
    """Merge ranges over the smallest gaps until `max_ranges` remain."""
    gaps = sorted(range(1, len(ranges)), key=lambda i: ranges[i - 1][1] - ranges[i][0])
    borders = sorted(gaps[: max_ranges - 1])  # the widest gaps remain
    starts, ends = [0, *borders], [*borders, len(ranges)]
    return [(ranges[a][0], ranges[b - 1][1]) for a, b in zip(starts, ends, strict=True)]
