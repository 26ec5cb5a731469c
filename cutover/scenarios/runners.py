"""Who can run a scenario: each engine registers its runner by entry point, so that this room knows none of them.

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
        DefinitionError: There is none of this name.
    """
    found = entry_points(group=GROUP)
    if name not in found.names:
        msg = f"--runner: expected one of {', '.join(sorted(found.names))}, got `{name[:80]}`."
        raise DefinitionError(msg)
    return cast("Runner", found[name].load())
