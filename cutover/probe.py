"""Named points in the paths at which a test can stop a process.

In production they do nothing: no setting or environment variable configures a probe. A test passes its own.
"""

from typing import Literal, Protocol

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
