"""One drill: how its alert is caused, what others do to mend it, and how its limits are scaled down."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cutover.infra.drills.stack import Stack

Act = Callable[[Stack], object]

SCALE: Mapping[str, object] = {
    "stalled_seconds": 3.0,
    "silent_seconds": 4.0,
    "open_seconds": 4.0,
    "held_seconds": 5.0,
    "rate_seconds": 60.0,
}
"""Limits of alerts (`AlertSettings`) in every drill: minutes become seconds."""


def nothing(stack: Stack) -> None:
    """Do nothing: the page's own commands are all that it takes, or time alone brings the alert."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill:
    """One alert, caused on purpose.

    Attributes:
        name: Of the alert, and of its page.
        title: What is done, in a few words.
        before: Done again before each look, until the alert is seen not to fire, and again at the end.
        inject: Causes it.
        go_on: Done again before each look, until the alert fires: senders that send on.
        heal: What the page asks others to do (a producer's owner, the owner of a cluster): after the blocks of Fix.
        case: Which of the page's cases (`when=`) is followed.
        scale: Limits of this drill alone, beside `SCALE`.
        definition: Arguments of the definition that differ, see `stack.define`.
        driver: Whether a driver lives when the alert is caused; else it was stopped before.
        fresh: Whether it begins on a log and a lake of its own, and leaves some that other drills cannot use.
        quick: Whether it runs with the tests.
        within: Seconds in which the alert has to fire, and again to clear.
    """

    name: str
    title: str
    inject: Act
    before: Act = nothing
    go_on: Act = nothing
    heal: Act = nothing
    case: str | None = None
    scale: Mapping[str, object] = field(default_factory=dict)
    definition: Mapping[str, str] = field(default_factory=dict)
    driver: bool = True
    fresh: bool = False
    quick: bool = False
    within: float = 90.0

    @property
    def limits(self) -> Mapping[str, object]:
        """All limits that differ from those of an installation."""
        return {**SCALE, **self.scale}
