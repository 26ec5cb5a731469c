"""The same log in epochs of other sizes, with stops between them: counted and late together are the same."""

from collections.abc import Iterator

from tests.faults.fault import Fault
from tests.faults.running.rig import Rig

SIZES = (2, 3, 7, 13, 29, 1000)
TIMES = 20


def read_it_again_and_again(rig: Rig) -> None:
    """Drain the same log into fresh lakes, with epoch sizes and stops of the seed."""
    rig.send(rig.draw(60, late=0.15))
    found, epochs, late = [], [], []
    for turn in range(TIMES):
        one = rig.beside(f"turn-{turn}")
        one.define(cap=SIZES[turn] if turn < len(SIZES) else rig.rng.choice(SIZES))
        for _ in range(rig.rng.randint(0, 2)):
            if one.unread() == 0:
                break
            running = one.background()
            last = one.newest()
            rig.until(lambda seen=last, on=one: on.newest() > seen or on.unread() == 0)  # type: ignore[misc]
            running.stop()
        one.drain()
        found.append(one.counted())
        epochs.append(len([record for record in one.records() if not record.tick]))
        late.append(sum(record.counts.get("late", 0) for record in one.records()))
        rig.note("violations", [v.text for v in one.verify(("N1", "N2", "N3", "N4", "N6")).violations])
        assert not rig.evidence["violations"]
    rig.note("epochs", epochs)
    rig.note("late", late)
    rig.note("tables", found)


def the_epochs_differed(rig: Rig) -> bool:
    """Not one number of epochs for all."""
    return len(set(rig.evidence["epochs"])) > 1


def counted_and_late_together_are_the_same(rig: Rig) -> Iterator[str]:
    """In every lake, whichever rows were late there."""
    first, *others = rig.evidence["tables"]
    yield from (f"lake {n}: expected {first}, got {other}" for n, other in enumerate(others, 1) if other != first)


FAULTS = (
    Fault(
        id="F20",
        family="driver",
        title=f"the same log {TIMES} times, with other epoch borders and stops",
        inject=read_it_again_and_again,
        happened=the_epochs_differed,
        holds=(counted_and_late_together_are_the_same,),
        within=3600,
    ),
)
