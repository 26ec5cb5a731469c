"""A driver killed between the two commits of a weaker delivery: it must double or lose, and say what."""

import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from cutover.definition import Pipeline
from cutover.definition.model.pipeline import Delivery
from tests.faults.fault import Fault
from tests.faults.running.definition import CAP, definition
from tests.faults.running.rig import Rig

EPOCH = 2


def with_delivery(topic: str, delivery: Delivery) -> Pipeline:
    """Return the definition with another delivery."""
    return replace(definition(topic), delivery=delivery)


def kill_between_the_commits(rig: Rig, *, delivery: Delivery) -> None:
    """Block between the commit of rows and that of the epoch, kill the group, continue."""
    rig.make = partial(with_delivery, rig.topic, delivery)
    rig.send(rig.draw(10 * CAP))  # so that there are windows which the epoch does not touch
    child = rig.start(block=("epoch.apart", EPOCH))
    rig.note("marker", child.marker())
    rig.note("status", child.kill())
    rig.drain()


def died_between_its_commits(rig: Rig) -> bool:
    """Marker in the epoch, wait status -9, and the epoch is committed now."""
    evidence = rig.evidence
    return (evidence["marker"].epoch, evidence["status"]) == (EPOCH, -signal.SIGKILL) and rig.newest() > EPOCH


def the_epoch_counts_otherwise_and_is_named(rig: Rig, *, word: str, times: int) -> Iterator[str]:
    """Its records count twice, or not at all; the comparison names it and leaves its windows out."""
    record = next(record for record in rig.records() if record.epoch == EPOCH)
    row_count = sum(number for number, _, _ in rig.count_by_cell().values())
    usable = sum(r.counts.get("accepted", 0) + r.counts.get("late", 0) for r in rig.records())
    epoch_rows = record.counts.get("accepted", 0) + record.counts.get("late", 0)
    if not epoch_rows or row_count != usable + (times - 1) * epoch_rows:
        yield f"expected {usable} rows and {times - 1} times {epoch_rows} more, got {row_count}"
    notes = rig.reconciliations[-1].finding.notes
    if not any(note.startswith(f"{word}: epoch {EPOCH}, ") for note in notes):
        yield f"expected a note on epoch {EPOCH}, got {notes}"


def _fault(delivery: Delivery, word: str, times: int) -> Fault:
    def the_epoch_is_named(rig: Rig) -> Iterator[str]:
        yield from the_epoch_counts_otherwise_and_is_named(rig, word=word, times=times)

    return Fault(
        id="F02",
        variant=delivery.replace("_", "-"),
        family="driver",
        title=f"control: killed between its commits with {delivery}, where the epoch is {word.lower()}",
        inject=partial(kill_between_the_commits, delivery=delivery),
        happened=died_between_its_commits,
        holds=(the_epoch_is_named,),
    )


FAULTS = (_fault("at_least_once", "Doubled", 2), _fault("at_most_once", "Lost", 0))
