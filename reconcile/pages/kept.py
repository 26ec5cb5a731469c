"""Cache of page contents for some seconds: many readers of one page cost one read of lake and log."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

from cutover.clock import Clock

Value = TypeVar("Value")
KEPT_SECONDS = 10.0


@dataclass(slots=True)
class Kept(Generic[Value]):
    """Values by name, each rebuilt once it is older than `KEPT_SECONDS`; one reader makes it, others wait for it."""

    clock: Clock
    _values: dict[str, tuple[float, Value]] = field(default_factory=dict)
    _locks: defaultdict[str, Lock] = field(default_factory=lambda: defaultdict(Lock))

    def get(self, name: str, make: Callable[[], Value]) -> Value:
        """Return the value of a name; an error of `make` is raised and not cached."""
        with self._locks[name]:
            cached = self._values.get(name)
            if cached is not None and self.clock.monotonic() - cached[0] < KEPT_SECONDS:
                return cached[1]
            value = make()
            self._values[name] = (self.clock.monotonic(), value)
            return value
