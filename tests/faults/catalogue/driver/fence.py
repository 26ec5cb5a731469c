"""Two drivers on one table: one of them continues, the other ends and has written nothing since."""

from collections.abc import Iterator
from itertools import pairwise

import psutil

from tests.faults.fault import Fault
from tests.faults.running.child import Child
from tests.faults.running.definition import CAP
from tests.faults.running.rig import Rig


def replace_a_stopped_driver(rig: Rig) -> None:
    """SIGSTOP inside an epoch, a replacement from another home commits three epochs, SIGCONT."""
    rig.send(rig.draw(8 * CAP))
    old = rig.start(block=("epoch.aggregated", 1))
    old.marker()
    old.pause()
    other = rig.background(settings=rig.second_home())
    rig.until(lambda: rig.newest() >= 3)
    rig.note("state", old.state())
    other.stop()
    rig.note("versions grew to epoch", rig.newest())
    old.release()
    old.resume()
    rig.note("old", old.pid)
    rig.expect_end(old)


def it_was_stopped_while_others_committed(rig: Rig) -> bool:
    """State T, and three epochs by another driver."""
    return bool(rig.evidence["state"] == psutil.STATUS_STOPPED and rig.evidence["versions grew to epoch"] >= 3)


def start_two(rig: Rig) -> None:
    """Let two drivers of two homes compute the same epoch, and continue at the same time."""
    rig.send(rig.draw(3 * CAP))
    first_child = rig.start(block=("epoch.aggregated", 1))
    first_child.marker()
    second_child = rig.start(block=("epoch.aggregated", 1), settings=rig.second_home())
    second_child.marker()
    rig.note("at the point", [first_child.marker().pid, second_child.marker().pid])
    for child in (first_child, second_child):
        child.release()
    loser, winner = _order_by_end(rig, first_child, second_child)
    rig.note("old", loser.pid)
    rig.expect_end(loser)
    rig.until(lambda: any(r.run_id.startswith(f"pid-{winner.pid}-") and r.epoch >= 1 for r in rig.records()))
    rig.note("winner ended with", winner.stop())


def _order_by_end(rig: Rig, first_child: Child, second_child: Child) -> tuple[Child, Child]:
    """Return the driver that ended and the one that continues."""
    ended = rig.until(lambda: [child for child in (first_child, second_child) if child.process.poll() is not None])
    return (first_child, second_child) if ended[0] is first_child else (second_child, first_child)


def both_were_there(rig: Rig) -> bool:
    """Two pids at the same point of the same epoch."""
    return len(set(rig.evidence["at the point"])) == 2 and rig.evidence["winner ended with"] == 0


def the_old_one_commits_nothing_after_the_new_one(rig: Rig) -> Iterator[str]:
    """In the order of epochs its run comes first and never again."""
    runs = [record.run_id for record in rig.records()]
    changes = [(a, b) for a, b in pairwise(runs) if a != b]
    back = [run_id for _, run_id in changes if run_id.startswith(f"pid-{rig.evidence['old']}-")]
    if back:
        yield f"run {back[0]} committed again after another driver had"


def it_says_who_was_faster(rig: Rig) -> Iterator[str]:
    """One message: which epoch, which pid, what to do; and it did not try again."""
    for expected in ("was committed by another driver (pid ", "Hint: ", "StreamFenced"):
        if expected not in rig.said:
            yield f"expected {expected!r} in what it said, got {rig.said[-300:]!r}"
    rig.saw("fenced")


_HOLDS = (the_old_one_commits_nothing_after_the_new_one, it_says_who_was_faster)

FAULTS = (
    Fault(
        id="F04",
        variant="a",
        family="driver",
        title="paused inside an epoch, replaced, and resumed",
        inject=replace_a_stopped_driver,
        happened=it_was_stopped_while_others_committed,
        holds=_HOLDS,
        alert="StreamFenced",
        exit_code=2,
    ),
    Fault(
        id="F04",
        variant="b",
        family="driver",
        title="two drivers compute the same epoch at the same time",
        inject=start_two,
        happened=both_were_there,
        holds=_HOLDS,
        alert="StreamFenced",
        exit_code=2,
    ),
)
