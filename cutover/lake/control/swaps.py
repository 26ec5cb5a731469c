"""Definition that is served under a pipeline's name: its own, or one that replaced it. The latest row decides."""

from cutover.clock import Clock
from cutover.errors import LakeError
from cutover.events import log
from cutover.lake import sequence_marks
from cutover.lake.control.signature import check_reason, user
from cutover.lake.journal import Journal, read_all, retry_conflicts
from cutover.lake.journal_rows import SwapEvent
from cutover.settings import Settings


def served_by(settings: Settings, name: str) -> str:
    """Return the name of the pipeline whose rows are served under a name: its own if nothing replaced it.

    Raises:
        LakeError: The history cannot be read, rows are missing, or the swaps form a cycle.
    """
    names = [name]
    while (follower := _read_follower(settings, names[-1])) != names[-1]:
        if follower in names:
            cycle = ", ".join([*names, follower])
            msg = f"Swaps of `{name}`: expected a definition that is served, found a cycle: {cycle}."
            raise LakeError(msg + f"\nHint: `cutover swap {name} --back` lets it serve itself.")
        names.append(follower)
    return names[-1]


def list_served_names(settings: Settings, served: str) -> list[str]:
    """List the names under which a pipeline is served: its own first, if it is one of them, the others sorted.

    Raises:
        LakeError: See `served_by`.
    """
    recorded_names = {event.pipeline for event in read_all(settings, SwapEvent)}
    # A name of which only marks exist is included: reading its history raises.
    candidates = recorded_names | sequence_marks.list_marked_pipelines(settings, SwapEvent.TABLE) | {served}
    names = [name for name in candidates if served_by(settings, name) == served]
    return sorted(names, key=lambda name: (name != served, name))


def read_swaps(settings: Settings, name: str) -> list[SwapEvent]:
    """Read every swap of a name and every withdrawal of one (its evidence says so), oldest first.

    Raises:
        LakeError: The table cannot be read, or rows are missing.
    """
    return Journal(settings, name, SwapEvent).read()


def read_next_swap_sequence(settings: Settings, name: str) -> int:
    """Return the sequence of the next swap of a name; read it before the facts on which the swap is decided."""
    return Journal(settings, name, SwapEvent).next_sequence()


def record_swap(  # noqa: PLR0913 -- what is served by what, why, on what evidence, and what a test passes
    settings: Settings,
    name: str,
    follower: str,
    *,
    why: str,
    evidence: str,
    clock: Clock,
    expected_sequence: int,
    who: str = "",
) -> None:
    """Serve a name from another pipeline from now on, in one commit.

    Args:
        settings: Location of the lake.
        name: Pipeline that is replaced, or that serves itself again.
        follower: Pipeline that is served.
        why: A person's reason.
        evidence: Result of the comparison of both.
        clock: Time of the swap.
        expected_sequence: Of `read_next_swap_sequence`, read before that comparison.
        who: Person who decides; empty: the user of this process.

    Raises:
        DefinitionError: The reason is empty or too long.
        SequenceConflictError: Another swap was made in the meantime; nothing was written.
    """
    event = SwapEvent(
        pipeline=name,
        at=clock.now(),
        served_by=follower,
        who=who or user(),
        why=check_reason(why, of="Swap"),
        evidence=evidence,
    )
    Journal(settings, name, SwapEvent).append(event, expected_sequence=expected_sequence)
    log.warning("definition_swapped", pipeline=name, served_by=follower, why=why)


def record_withdrawal(
    settings: Settings, name: str, *, why: str, evidence: str, clock: Clock, expected_sequence: int
) -> None:
    """Take the sequence of a proposed swap, so that no one can make it any more; what is served does not change.

    Args:
        settings: Location of the lake.
        name: Pipeline that was to be replaced.
        why: The reason.
        evidence: What was withdrawn, as JSON.
        clock: Time of the withdrawal.
        expected_sequence: Of `read_next_swap_sequence`, read before the swap was proposed; nothing is written if it is
            taken.

    Raises:
        LakeError: The history cannot be read, or other processes were faster in every attempt.
    """

    def write() -> None:
        if read_next_swap_sequence(settings, name) != expected_sequence:
            return
        event = SwapEvent(
            pipeline=name,
            at=clock.now(),
            served_by=_read_follower(settings, name),
            who=user(),
            why=why,
            evidence=evidence,
        )
        Journal(settings, name, SwapEvent).append(event, expected_sequence=expected_sequence)
        log.warning("swap_withdrawn", pipeline=name, why=why)

    retry_conflicts(write)


def _read_follower(settings: Settings, name: str) -> str:
    events = read_swaps(settings, name)
    return events[-1].served_by if events else name
