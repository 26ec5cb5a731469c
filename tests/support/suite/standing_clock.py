"""A clock that does not advance."""

from dataclasses import dataclass
from datetime import datetime


@dataclass
class StandingClock:
    """A clock that shows one time."""

    at: datetime

    def now(self) -> datetime:
        """Return the time it shows."""
        return self.at

    def monotonic(self) -> float:
        """Return the same, in seconds."""
        return self.at.timestamp()
