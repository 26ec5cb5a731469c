"""A clock that a fault can be wrong by."""

import time
from datetime import UTC, datetime, timedelta


class WrongClock:
    """The machine's clock, `off` seconds ahead of it (behind it: negative); how long things take stays right."""

    def __init__(self, off: float = 0.0) -> None:
        self.off = off

    def now(self) -> datetime:
        """Return the wall clock, in UTC."""
        return datetime.now(UTC) + timedelta(seconds=self.off)

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()
