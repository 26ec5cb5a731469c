"""Clocks and probes as parameters, so that tests can set the time, and stop a process at named points of the paths.

In production the points do nothing: no setting or environment variable configures a probe. A test passes its own.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal, Protocol, TypeVar

Found = TypeVar("Found")


class Clock(Protocol):
    """Wall clock and monotonic clock of a path."""

    def now(self) -> datetime:
        """Read the wall clock: aware, in UTC, and it may be set back."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""


class SystemClock:
    """Clock of this machine."""

    def now(self) -> datetime:
        """Read the wall clock: aware, in UTC, and it may be set back."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()


def poll_until(poll: Callable[[], Found | None], *, timeout: float, interval: float) -> Found | None:
    """Call `poll` at least once, until it returns a value; return None on timeout.

    Args:
        poll: Returns None as long as there is no value.
        timeout: Seconds; a call in progress is not interrupted.
        interval: Seconds between the end of one call and the next.
    """
    deadline = time.monotonic() + timeout
    value = poll()
    while value is None and time.monotonic() < deadline:
        time.sleep(interval)
        value = poll()
    return value


Point = Literal[
    "start.read",
    "epoch.planned",
    "epoch.aggregated",
    "epoch.apart",
    "epoch.committed",
    "compact.read",
    "compact.written",
    "compact.committed",
    "batch.read",
    "batch.indexed",
    "batch.written",
    "batch.committed",
    "repair.staged",
    "repair.checked",
    "repair.kept",
    "report.rendered",
    "verdict.recorded",
    "move.switched",
]


class Probe(Protocol):
    """Callback for each named point that a path reaches."""

    def __call__(self, point: Point, epoch: int) -> None:
        """Handle that `point` was reached in `epoch` (-1 if there is none)."""


def silent(point: Point, epoch: int) -> None:
    """Do nothing; the probe in production."""
