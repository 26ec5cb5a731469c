"""Open windows grouped by age: the event time that has passed since their start."""

from collections.abc import Iterable
from itertools import pairwise

from cutover.reconcile.result.timeliness import OpenPoint

EDGES = (0, 1, 2, 5, 15, 30, 60, 120, 240, 480, 1440, 2880, 10_080)
"""Minutes."""

_MINUTE = 60_000_000


def gather_points(windows: Iterable[tuple[int, bool, float]]) -> tuple[OpenPoint, ...]:
    """Build a point for each range of ages that contains a window.

    Args:
        windows: Age (microseconds; below 0: time has not reached its start), whether all rows agree, largest error.
    """
    rows = list(windows)
    points = []
    for low, high in ((None, 0), *pairwise(EDGES), (EDGES[-1], None)):
        group = [row for row in rows if _is_between(row[0] / _MINUTE, low, high)]
        if group:
            point = OpenPoint(
                from_minutes=float(0 if low is None else low),
                to_minutes=None if high is None else float(high),
                windows=len(group),
                same=sum(is_same for _, is_same, _ in group),
                largest=max(largest for *_, largest in group),
            )
            points.append(point)
    return tuple(points)


def _is_between(minutes: float, low: int | None, high: int | None) -> bool:
    return (low is None or minutes >= low) and (high is None or minutes < high)
