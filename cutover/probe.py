"""Named points in the paths, at which a test can stop a process on purpose.

In production nothing happens there: no setting and no environment variable reaches a probe. A test hands in its own.
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
    """Told whenever a path reaches a named point."""

    def __call__(self, point: Point, epoch: int) -> None:
        """Take note that `point` was reached in `epoch` (-1 where there is none)."""


def silent(point: Point, epoch: int) -> None:
    """Do nothing: the probe of production."""
