"""The driver is killed, doubled, paused, or loses Spark's notes: no epoch is lost or counted twice."""

import signal
from collections.abc import Iterator

from tests.faults.fault import Fault
from tests.faults.rig import CAP, Rig


def kill_after_the_commit(rig: Rig) -> None:
    """Block after the commit of epoch 2, before Spark has noted the batch, and kill the group."""
    rig.send(rig.draw(5 * CAP, late=0.1))
    child = rig.start(block=("epoch.committed", 2))
    rig.note("marker", child.marker())
    rig.note("status", child.kill())
    rig.note("transaction", rig.transaction())
    rig.note("before", rig.records())


def died_after_its_commit(rig: Rig) -> bool:
    """Marker at epoch 2, transaction 2, wait status -9."""
    seen = rig.evidence
    return (seen["marker"].epoch, seen["transaction"], seen["status"]) == (2, 2, -signal.SIGKILL)


def nothing_is_read_again(rig: Rig) -> Iterator[str]:
    """What was committed stands, and the next epoch begins where it ended."""
    before, after = rig.evidence["before"], rig.records()
    if after[: len(before)] != before:
        yield f"epochs 0 to {len(before) - 1} were changed"
    if dict(after[len(before)].start) != dict(before[-1].end):
        yield f"epoch {len(before)}: expected to start at {before[-1].end}, started at {after[len(before)].start}"


FAULTS = (
    Fault(
        id="F02",
        family="driver",
        title="killed after the commit, before Spark noted the batch",
        inject=kill_after_the_commit,
        happened=died_after_its_commit,
        holds=(nothing_is_read_again,),
        quick=True,
    ),
)
