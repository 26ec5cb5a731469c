"""Definition of one drill: the fault that causes its alert, the external part of the repair, and scaled-down limits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cutover.infra.drills.stack import Stack

Action = Callable[[Stack], object]

SCALE: Mapping[str, object] = {
    "stalled_seconds": 3.0,
    "silent_seconds": 4.0,
    "open_seconds": 4.0,
    "held_seconds": 5.0,
    "rate_seconds": 60.0,
}
"""Limits of alerts (`AlertSettings`) in every drill: minutes become seconds."""


def no_action(stack: Stack) -> None:
    """Do nothing: the alert fires by the passing of time, or the commands of the runbook are the whole repair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill:
    """Alert that is caused on purpose, with the steps that cause and resolve it.

    Attributes:
        name: Name of the alert and of its runbook.
        title: Short description of the fault.
        inject: Action that causes the alert.
        sustain_clear: Action that is repeated until the alert is clear, before the fault and after the repair.
        sustain_fault: Action that is repeated until the alert fires, such as a producer that continues to send.
        external_repair: Action that the runbook requests from others (the owner of a producer or of the cluster);
            performed after the section Fix.
        case: Case of the runbook (`when=`) that is followed.
        scale: Limits of this drill, in addition to `SCALE`.
        definition: Arguments of the definition that differ, see `Stack.define`.
        prepare: Action before the driver starts with the definition of the drill.
        needs_driver: Run a driver when the fault is injected; otherwise the driver is stopped first.
        is_isolated: Start on a new log and lake, and leave them in a state that other drills cannot use.
        quick: Run with the tests.
        timeout: Seconds in which the alert has to fire, and again to clear.
    """

    name: str
    title: str
    inject: Action
    sustain_clear: Action = no_action
    sustain_fault: Action = no_action
    external_repair: Action = no_action
    case: str | None = None
    scale: Mapping[str, object] = field(default_factory=dict)
    definition: Mapping[str, str] = field(default_factory=dict)
    prepare: Action = no_action
    needs_driver: bool = True
    is_isolated: bool = False
    quick: bool = False
    timeout: float = 90.0

    @property
    def limits(self) -> Mapping[str, object]:
        """All limits that differ from those of an installation, by name."""
        return {**SCALE, **self.scale}
