"""What is to be looked at once a moment has come: windows by their end, or by when the clock makes them fire."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

from cutover.definition.windows.window_fn import Interval
from cutover.panes.model import Key

Place = tuple[Key, Interval]


@dataclass(slots=True)
class Agenda:
    """Moments, each with windows. One window too many does no harm: who takes it asks whether it is ready."""

    _moments: list[int] = field(default_factory=list)  # a heap, each once
    _places: dict[int, dict[Place, None]] = field(default_factory=dict)

    @property
    def next(self) -> int | None:
        """None once nothing is left to look at."""
        return self._moments[0] if self._moments else None

    def add(self, moment: int, place: Place) -> None:
        """Set a window down for a moment."""
        if moment not in self._places:
            heappush(self._moments, moment)
        self._places.setdefault(moment, {})[place] = None

    def take(self, until: int) -> Iterator[Place]:
        """Yield the windows of all moments up to one, and strike them out."""
        while self._moments and self._moments[0] <= until:
            yield from self._places.pop(heappop(self._moments))
