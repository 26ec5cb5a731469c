"""Task of a child process: which path, for which pipeline, and at which point it stops."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cutover.clock import Clock, Point
from cutover.definition import Pipeline
from cutover.settings import Settings
from cutover.streaming.driver import Until

Role = Literal["stream", "batch", "reconcile"]
Place = tuple[Point, int | None]  # a point of one epoch; None: of any


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Everything in it can be pickled: functions are those of modules, or `functools.partial` of such."""

    role: Role
    settings: Settings
    make: Callable[[], Pipeline]
    trace: Path  # a line `point epoch pid` for every point that is reached
    block: Place | None = None  # where it stops until it is killed, or until `<trace>.release` exists
    until: Until = "forever"
    clock: Clock | None = None
    prepare: Callable[[], None] | None = None  # called in the child before anything else
