"""Drills one after another on one embedded stack."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from cutover.errors import CutoverError
from cutover.infra.drills.drill import Drill
from cutover.infra.drills.follow import Tell
from cutover.infra.drills.perform import DrillOutcome, perform
from cutover.infra.drills.place import own_place
from cutover.infra.drills.stack import Stack
from cutover.settings import Settings


def run_drills(
    settings: Settings, drills: Sequence[Drill], *, home: Path | None, tell: Tell
) -> Iterator[tuple[Drill, DrillOutcome | CutoverError]]:
    """Yield each drill with what it came to, or why it failed; the stack ends with the last one.

    A drill goes on where the one before left a healthy pipeline. After a failure, and where a drill asks for it, the
    next one begins on a topic and a lake of its own.

    Raises:
        DefinitionError: The place is one where real pipelines run.
        CutoverError: The stack does not come up.
    """
    with own_place(settings, home) as place:
        stack = Stack(place)
        try:
            tell("starting a broker and a pipeline of their own")
            stack.open()
            is_healthy = False
            for drill in drills:
                try:
                    if drill.fresh or not is_healthy:
                        stack.limits = {}
                        stack.renew()
                    is_healthy = False
                    outcome = perform(drill, stack, tell=tell)
                    is_healthy = not (drill.fresh or drill.definition)
                except CutoverError as error:
                    yield drill, error
                else:
                    yield drill, outcome
        finally:
            stack.close()
