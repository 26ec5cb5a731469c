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


def poll_until(poll: Callable[[], Found | None], *, timeout: float, interval: float) -> Found | None:
    """Poll until a value is found, at least once; return None when the time is over.

    Args:
        poll: Returns None as long as nothing is found.
        timeout: Seconds; a look that has begun is not cut short.
        interval: Seconds between the end of one look and the next.
    """
    deadline = time.monotonic() + timeout
    value = poll()
    while value is None and time.monotonic() < deadline:
        time.sleep(interval)
        value = poll()
    return value
