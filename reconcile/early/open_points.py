"""Open windows by their age: how far event time is beyond their start."""

from collections.abc import Iterable
from itertools import pairwise

from cutover.reconcile.result.timeliness import OpenPoint

EDGES = (0, 1, 2, 5, 15, 30, 60, 120, 240, 480, 1440, 2880, 10_080)
"""Minutes."""

_MINUTE = 60_000_000


def gather_points(windows: Iterable[tuple[int, bool, float]]) -> tuple[OpenPoint, ...]:
    """Return a point for each age that a window has.

    Args:
        windows: Age (microseconds; below 0: time has not reached its start), whether nothing differs, largest error.
    """
    listed = list(windows)
    points = []
    for low, high in ((None, 0), *pairwise(EDGES), (EDGES[-1], None)):
        mine = [one for one in listed if _is_between(one[0] / _MINUTE, low, high)]
        if mine:
            point = OpenPoint(
                from_minutes=float(0 if low is None else low),
                to_minutes=None if high is None else float(high),
                windows=len(mine),
                same=sum(is_same for _, is_same, _ in mine),
                largest=max(largest for *_, largest in mine),
            )
            points.append(point)
    return tuple(points)


def _is_between(minutes: float, low: int | None, high: int | None) -> bool:
    return (low is None or minutes >= low) and (high is None or minutes < high)
