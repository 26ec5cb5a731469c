"""Which definition is served under a pipeline's name: its own, or one that took its place. The newest row says it."""

from typing import Any

from cutover.clock import Clock
from cutover.errors import LakeError
from cutover.events import log
from cutover.lake import turns
from cutover.lake.control import control_tables
from cutover.lake.control.signature import reason, user
from cutover.settings import Settings


def served_by(settings: Settings, name: str) -> str:
    """Return the name of the pipeline whose rows are served under a name: its own where nothing took its place.

    Raises:
        LakeError: The history cannot be read, rows of it are gone, or it leads in a circle.
    """
    seen = [name]
    while (follower := _newest(settings, seen[-1])) != seen[-1]:
        if follower in seen:
            circle = ", ".join([*seen, follower])
            msg = f"Swaps of `{name}`: expected a definition that is served, got a circle: {circle}."
            raise LakeError(msg + f"\nHint: `cutover swap {name} --back` lets it serve itself.")
        seen.append(follower)
    return seen[-1]


def list_names(settings: Settings, served: str) -> list[str]:
    """Return the names under which a pipeline is served, its own first if that is one of them; others by name.

    Raises:
        LakeError: See `served_by`.
    """
    told = {str(row["pipeline"]) for row in control_tables.read_all(settings, "swaps")}
    known = told | turns.list_noted(settings, "swaps") | {served}  # of a name that only notes tell of, reading refuses
    names = [name for name in known if served_by(settings, name) == served]
    return sorted(names, key=lambda name: (name != served, name))


def history(settings: Settings, name: str) -> list[dict[str, Any]]:
    """Return every swap of a name, and every one that was withdrawn (`found` says so), the oldest first.

    Raises:
        LakeError: The table cannot be read, or rows of it are gone.
    """
    return control_tables.read(settings, "swaps", name)


def next_turn(settings: Settings, name: str) -> int:
    """Return the turn of the next swap of a name; read it before what the swap is decided by."""
    return control_tables.next_turn(settings, "swaps", name)


def swap(  # noqa: PLR0913 -- what is served by what, why, by what evidence, and what a test hands in
    settings: Settings, name: str, follower: str, *, why: str, found: str, clock: Clock, turn: int, who: str = ""
) -> None:
    """Let a name be served by a pipeline from now on, in one commit.

    Args:
        settings: Where the lake is.
        name: Of the pipeline that is replaced, or that serves itself again.
        follower: Of the pipeline that is served.
        why: A person's reason.
        found: What a comparison said.
        clock: When that is.
        turn: Of `next_turn`, before that comparison.
        who: Decides it; empty: who runs this process.

    Raises:
        DefinitionError: The reason is empty or too long.
        OvertakenError: Another swap was made meanwhile; nothing was written.
    """
    row = {
        "pipeline": name,
        "at": clock.now(),
        "served_by": follower,
        "who": who or user(),
        "why": reason(why, of="Swap"),
        "found": found,
    }
    control_tables.append(settings, "swaps", [row], turn=turn)
    log.warning("definition_swapped", pipeline=name, served_by=follower, why=why)


def withdraw(settings: Settings, name: str, *, why: str, found: str, clock: Clock, turn: int) -> None:
    """Take the turn of a swap that is not made, so that whoever is still at it cannot make it; who serves stays.

    Args:
        settings: Where the lake is.
        name: Of the pipeline that was to be replaced.
        why: The reason.
        found: What was withdrawn, as JSON.
        clock: When that is.
        turn: Of `next_turn`, before the swap was proposed; nothing is written once it is over.

    Raises:
        LakeError: The history cannot be read, or other processes were always faster.
    """

    def write() -> None:
        if next_turn(settings, name) != turn:
            return
        row = {"pipeline": name, "at": clock.now(), "who": user(), "why": why, "found": found}
        control_tables.append(settings, "swaps", [row | {"served_by": _newest(settings, name)}], turn=turn)
        log.warning("swap_withdrawn", pipeline=name, why=why)

    control_tables.unless_overtaken(write)


def _newest(settings: Settings, name: str) -> str:
    rows = history(settings, name)
    return str(rows[-1]["served_by"]) if rows else name
