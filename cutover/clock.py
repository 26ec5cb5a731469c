"""Time as a value that is handed in, so that a test can say what time it is."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What a path needs to know of time."""

    def now(self) -> datetime:
        """Read the wall clock: aware, in UTC, and it may be set back."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """Read the wall clock: aware, in UTC, and it may be set back."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()
