"""Who can run a scenario: each engine registers its runner by entry point, so that this room knows none of them.

A runner is a function of a `Setting` that returns an `Outcome`, in the group `cutover.runners`.
"""

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import cast

from cutover.panes.model import Outcome, Setting
from cutover.scenarios.fields import refuse

Runner = Callable[[Setting], Outcome]

GROUP = "cutover.runners"


def runner(name: str) -> Runner:
    """Return an installed runner.

    Raises:
        DefinitionError: There is none of this name.
    """
    found = entry_points(group=GROUP)
    if name not in found.names:
        refuse("--runner", f"one of {', '.join(sorted(found.names))}", name)
    return cast("Runner", found[name].load())
