"""Runners of scenarios. Each engine registers its runner by entry point, so this package depends on none of them.

A runner is a function of a `Setting` that returns an `Outcome`, in the group `cutover.runners`.
"""

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import cast

from cutover.errors import DefinitionError
from cutover.panes.model import Outcome, Setting

Runner = Callable[[Setting], Outcome]

GROUP = "cutover.runners"


def runner(name: str) -> Runner:
    """Load a runner by its entry point.

    Raises:
        DefinitionError: No runner has this name.
    """
    runners = entry_points(group=GROUP)
    if name not in runners.names:
        msg = f"--runner: expected one of {', '.join(sorted(runners.names))}, got `{name[:80]}`."
        raise DefinitionError(msg)
    return cast("Runner", runners[name].load())
