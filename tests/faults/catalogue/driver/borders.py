"""The same log in epochs of other sizes, with stops between them: counted and late together are the same."""

from collections.abc import Iterator

from tests.faults.fault import Fault
from tests.faults.running.rig import Rig

SIZES = (2, 3, 7, 13, 29, 1000)
TIMES = 20


def read_it_again_and_again(rig: Rig) -> None:
    """Drain the same log into fresh lakes, with epoch sizes and stops of the seed."""
    rig.send(rig.draw(60, late=0.15))
    tables, epochs, late = [], [], []
    for turn in range(TIMES):
        installation = rig.add_installation(f"turn-{turn}")
        installation.define(cap=SIZES[turn] if turn < len(SIZES) else rig.rng.choice(SIZES))
        for _ in range(rig.rng.randint(0, 2)):
            if installation.unread() == 0:
                break
            running = installation.background()
            newest = installation.newest()
            rig.until(lambda newest_before=newest, on=installation: on.newest() > newest_before or on.unread() == 0)  # type: ignore[misc]
            running.stop()
        installation.drain()
        tables.append(installation.count_by_cell())
        epochs.append(len([record for record in installation.records() if not record.tick]))
        late.append(sum(record.counts.get("late", 0) for record in installation.records()))
        rig.note("violations", [v.text for v in installation.verify(("N1", "N2", "N3", "N4", "N6")).violations])
        assert not rig.evidence["violations"]
    rig.note("epochs", epochs)
    rig.note("late", late)
    rig.note("tables", tables)


def the_epochs_differed(rig: Rig) -> bool:
    """Not one number of epochs for all."""
    return len(set(rig.evidence["epochs"])) > 1


def counted_and_late_together_are_the_same(rig: Rig) -> Iterator[str]:
    """In every lake, whichever rows were late there."""
    first_table, *other_tables = rig.evidence["tables"]
    yield from (
        f"lake {n}: expected {first_table}, got {other}"
        for n, other in enumerate(other_tables, 1)
        if other != first_table
    )


FAULTS = (
    Fault(
        id="F20",
        family="driver",
        title=f"the same log {TIMES} times, with other epoch boundaries and stops",
        inject=read_it_again_and_again,
        happened=the_epochs_differed,
        holds=(counted_and_late_together_are_the_same,),
        timeout_seconds=3600,
    ),
)
