"""The sessions of one key, in order: those that rows touch are found without looking at the others."""

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, field

from cutover.definition.windows.sessions import can_merge
from cutover.definition.windows.window_fn import LATEST, Interval


@dataclass(slots=True)
class SessionsInOrder:
    """Intervals of which none touches another one, ascending; so their ends ascend too."""

    _intervals: list[Interval] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._intervals)

    def touching(self, window: Interval) -> list[Interval]:
        """Intervals at a distance of at most the gap, ascending."""
        behind = bisect_right(self._intervals, Interval(window.end, LATEST + window.end))
        first = behind
        while first and can_merge(self._intervals[first - 1], window):
            first -= 1
        return self._intervals[first:behind]

    def add(self, window: Interval) -> None:
        """Take in one that touches none of them."""
        insort(self._intervals, window)

    def remove(self, window: Interval) -> None:
        """Take one out."""
        del self._intervals[bisect_left(self._intervals, window)]
