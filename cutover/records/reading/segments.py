"""Which offsets to read again: few ranges a partition that hold all records of some windows. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cutover.records.reading.scan import Offsets

NEAR = 5_000  # offsets; reading on is cheaper than a further Spark job
MOST = 8  # ranges a partition, hence Spark reads


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class OffsetSpan:
    """Offsets `[first, last]` of one partition."""

    partition: int
    first: int
    last: int  # inclusive


def reads(spans: Iterable[OffsetSpan], *, most: int = MOST) -> tuple[Offsets, ...]:
    """Return reads of one range a partition each, disjoint, that together hold every span.

    Spans that overlap or lie near one another become one; if more than `most` of a partition remain, the smallest gaps
    are read as well.
    """
    by_partition: dict[int, list[tuple[int, int]]] = {}
    for span in sorted(spans):
        ranges = by_partition.setdefault(span.partition, [])
        if ranges and span.first <= ranges[-1][1] + NEAR:
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], span.last + 1))
        else:
            ranges.append((span.first, span.last + 1))
    kept = {partition: _fewest(ranges, most) for partition, ranges in by_partition.items()}
    rounds = max((len(ranges) for ranges in kept.values()), default=0)
    return tuple({p: ranges[i] for p, ranges in kept.items() if i < len(ranges)} for i in range(rounds))


def _fewest(ranges: Sequence[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """Join ranges over the smallest gaps until `most` are left."""
    gaps = sorted(range(1, len(ranges)), key=lambda i: ranges[i - 1][1] - ranges[i][0])
    borders = sorted(gaps[: most - 1])  # the widest gaps stay
    starts, ends = [0, *borders], [*borders, len(ranges)]
    return [(ranges[a][0], ranges[b - 1][1]) for a, b in zip(starts, ends, strict=True)]
