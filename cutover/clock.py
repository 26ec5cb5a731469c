"""Time as a parameter, so that a test can set it."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol, TypeVar

Found = TypeVar("Found")


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


def poll_until(look: Callable[[], Found | None], *, within: float, every: float) -> Found | None:
    """Poll until a value is found, at least once; return None when the time is over.

    Args:
        look: Returns None as long as nothing is found.
        within: Seconds; a look that has begun is not cut short.
        every: Seconds between the end of one look and the next.
    """
    deadline = time.monotonic() + within
    found = look()
    while found is None and time.monotonic() < deadline:
        time.sleep(every)
        found = look()
    return found
