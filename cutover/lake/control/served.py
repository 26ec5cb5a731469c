"""What people are served: the stage of a pipeline, and the definition that serves its name.

The stage selects the path from which people are served. The definition is the pipeline's own, or one that replaced it
in a swap. The latest row of each history decides.
"""

import contextlib
from datetime import datetime

from cutover.changes import check_reason, user
from cutover.clock import Clock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.batch_job import describe_job_table, find_batch_job
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.policy import Stage
from cutover.errors import LakeError
from cutover.events import log
from cutover.lake import sequence_marks
from cutover.lake.control import versions
from cutover.lake.journal import Journal, read_all, retry_conflicts
from cutover.lake.journal_rows import GateEvent, SwapEvent
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings

WITHDRAWN = "withdrawn"
"""Event of a row that takes the sequence of a proposed move, so that the move can no longer be made."""


def read_gate_events(settings: Settings, name: str) -> list[GateEvent]:
    """Read the gate's history of a pipeline, withdrawals included, oldest first.

    Raises:
        LakeError: The table cannot be read, or rows are missing.
    """
    return Journal(settings, name, GateEvent).read()


def current_stage(lake: PipelineLake, *, way_back: bool = False) -> Stage:
    """Return the stage that the latest row of the gate's history names.

    LAMBDA before the first row, under a definition other than the one that was moved (its evidence proves nothing about
    another result), and after its tables were deleted.

    Args:
        lake: Pipeline under its current definition: a stage belongs to one.
        way_back: Decide by the gate's history alone if the history of versions cannot be read.

    Raises:
        LakeError: One of the two histories cannot be read, or rows are missing.
    """
    latest = _find_latest_move(lake, way_back=way_back)
    return Stage.LAMBDA if latest is None else Stage(latest.stage)


def find_stage_start(lake: PipelineLake) -> datetime | None:
    """Return the time of the latest move under the current definition; None before the first."""
    latest = _find_latest_move(lake, way_back=False)
    return None if latest is None else latest.at


def list_moves(settings: Settings, name: str) -> list[GateEvent]:
    """List the moves of a pipeline, oldest first, without those that were withdrawn.

    Raises:
        LakeError: The table cannot be read, or rows are missing.
    """
    return [event for event in read_gate_events(settings, name) if event.event != WITHDRAWN]


def _find_latest_move(lake: PipelineLake, *, way_back: bool) -> GateEvent | None:
    moves, fingerprint = list_moves(lake.settings, lake.name), result_fingerprint(lake.pipeline)
    if not moves or moves[-1].result_fingerprint != fingerprint:
        return None
    deletion = None
    with contextlib.suppress(*[LakeError] if way_back else []):
        deletion = versions.find_deletion(lake.settings, lake.name, fingerprint, versions.BATCH)
    was_deleted_since = deletion is not None and not deletion.is_before(moves[-1])
    return None if was_deleted_since else moves[-1]


def read_own_tables(lake: PipelineLake) -> str | None:
    """Read the stage, and describe which tables of a team's own jobs people read; None: there is no such job."""
    if lake.pipeline.stream is None and find_batch_job(lake.pipeline.batch) is None:
        return None
    try:
        return describe_own_tables(lake.pipeline, current_stage(lake))
    except LakeError as error:
        return f"Which tables serve is unknown: {error.text.splitlines()[0]}"


def describe_own_tables(pipeline: Pipeline, stage: Stage) -> str | None:
    """Describe in a sentence which tables of a team's own jobs people read in a stage; None: there is no such job.

    Cutover's views and serving tables have its own rows of both sides, which comparisons check against these tables.
    """
    stream, job = pipeline.stream, find_batch_job(pipeline.batch)
    if stream is None and job is None:
        return None
    streaming = "Cutover's stream" if stream is None else f"the streaming job's table {stream.table.path}"
    batch = "Cutover's batch table" if job is None else f"the batch job's table {describe_job_table(job.table)}"
    upto = "that it has computed" if job is None else "up to its position"
    if stage is Stage.LAMBDA:
        return f"In LAMBDA, {batch} serves windows {upto}, {streaming} later ones."
    rest = f"is compared with {'it' if stream is None else 'that table'}"
    if stage is Stage.KAPPA:
        rest = "is no longer computed" if job is None else "is no longer compared, so that the batch job can be retired"
    return f"In {stage}, {streaming} serves all windows; {batch} {rest}."


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
