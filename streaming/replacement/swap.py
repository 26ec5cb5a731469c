"""Swap: serve a changed definition under the name of the one that its note names, in one commit, on approval.

Both keep running as separate pipelines, with their drivers, batch paths, stages and alerts, so the swap can be reverted
at once. One row of the history decides which serves; the serving table follows in a separate commit, and never shows
less of the log than before.

A swap is rejected once its basis has changed: a version was added or began to serve, a definition or its note changed,
another swap was made, or this one was withdrawn. When the swap is made, both are compared again, and a difference that
the note does not declare rejects it too. The number of rows that differ as declared may grow while records arrive.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Self

from cutover import changes
from cutover.changes import Approval, check_reason
from cutover.clock import Clock
from cutover.definition.compile.fingerprint import lateness_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError, LakeError
from cutover.lake.control import pins, served, versions
from cutover.lake.epochs.epoch_log import has_read_as_much, read_newest_epoch
from cutover.lake.journal_rows import SwapEvent
from cutover.lake.serving import serving_table
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from cutover.streaming.process import heartbeat
from cutover.streaming.replacement.compare import (
    Stream,
    StreamComparison,
    compare_definitions,
    find_stream,
)
from cutover.streaming.replacement.replay import Agreed, describe_comparison, reject_others


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapBasis:
    """State of two definitions that must not change between the comparison and the swap."""

    pipeline: str  # that is to serve
    of: str  # whose name it takes
    turns: tuple[int, int]  # of the next swap of either name
    versions: tuple[int, int]  # turn of the next version of each
    results: tuple[str, str]  # fingerprint of each
    lateness: tuple[str, str]  # fingerprint of each
    note: str  # the change note, as canonical JSON

    @classmethod
    def read(cls, settings: Settings, new: Pipeline, old: Pipeline) -> Self:
        """Read the current state.

        Raises:
            LakeError: A table cannot be read, or one of them has no stream.
        """
        lakes = PipelineLake(settings, new), PipelineLake(settings, old)
        streams = find_stream(lakes[0]), find_stream(lakes[1])
        return cls(
            pipeline=new.name,
            of=old.name,
            turns=(
                served.read_next_swap_sequence(settings, new.name),
                served.read_next_swap_sequence(settings, old.name),
            ),
            versions=(versions.read_next_version_sequence(lakes[0]), versions.read_next_version_sequence(lakes[1])),
            results=(streams[0].version.result_fingerprint, streams[1].version.result_fingerprint),
            lateness=(lateness_fingerprint(new), lateness_fingerprint(old)),
            note=json.dumps(None if new.change is None else asdict(new.change), sort_keys=True),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapProposal(changes.Proposal):
    """A swap that a comparison allows, as proposed to a person."""

    run: str  # the run that proposes it: the swap of another run is another proposal
    basis: SwapBasis
    epochs: tuple[int, int]  # of the cut, in the old one and in the new one
    found: str  # summary of the comparison


SwapApproval = Approval[SwapProposal]
"""Approval of a swap by a person."""


def make_swap_proposal(
    settings: Settings, new: Pipeline, old: Pipeline, *, run: str, clock: Clock
) -> tuple[SwapProposal, StreamComparison]:
    """Compare two definitions and return the swap that a person may approve; its cut is pinned for a day.

    Args:
        settings: Where the lake is.
        new: The changed definition.
        old: The one that its note names.
        run: The caller, such as the id of a DAG run.
        clock: For the pins.

    Raises:
        DefinitionError: One of them is replaced already, or they differ otherwise than the change note declares.
        LakeError: They have no cut in common, or cannot be compared.
    """
    settings = versions.select_served_version(settings)
    basis = SwapBasis.read(settings, new, old)
    reject_replaced(settings, new, old)
    definitions = compare_definitions(settings, new, old)
    reject_others(definitions, Agreed(), f"cutover swap {new.name}")
    now = clock.now()
    for stream, epoch in zip(
        (find_stream(PipelineLake(settings, old)), find_stream(PipelineLake(settings, new))),
        definitions.epochs,
        strict=True,
    ):
        holder = f"swap/{new.name}"
        pins.pin(settings, stream.version, epoch, holder=holder, expires_at=now + pins.LONGEST, now=now)
    return SwapProposal(run=run, basis=basis, epochs=definitions.epochs, found=definitions.summary), definitions


_CHANGED = {
    "pipeline": "it was another definition",
    "of": "it was another definition",
    "turns": "one of the two was swapped or a swap withdrawn",
    "versions": "one of the two got a version or lets another one serve",
    "results": "a definition of results changed",
    "lateness": "the lateness of a definition changed",
    "note": "the change note changed",
}
"""Message for each field of the basis that has changed."""


def check_swap_approval(approval: SwapApproval, current: SwapBasis) -> None:
    """Check that a person approved the swap, and that its basis has not changed.

    Raises:
        ApprovalRejectedError: Names the change; nothing was written.
    """
    subject = f"Swap of `{current.of}` to `{current.pipeline}`"
    approval.check_person(subject)
    approved_basis, current_basis = asdict(approval.proposal.basis), asdict(current)
    changed = [text for name, text in _CHANGED.items() if approved_basis[name] != current_basis[name]]
    changes.check_approval_unchanged(subject, changed, dag=f"{current.pipeline}_swap")


def reject_replaced(settings: Settings, new: Pipeline, old: Pipeline) -> None:
    """Reject a swap of definitions that do not both serve their own names, or that name each other.

    Raises:
        DefinitionError: One of them is replaced already, or both name each other.
    """
    for pipeline in (old, new):
        if (serves := served.served_by(settings, pipeline.name)) != pipeline.name:
            msg = f"Swap of `{old.name}` to `{new.name}`: expected two that serve their own names, "
            msg += f"got `{pipeline.name}`, which `{serves}` serves."
            raise DefinitionError(
                msg + f"\nHint: `change` names the one that serves; `cutover swap {pipeline.name} --back`."
            )
    if old.change is not None and old.change.of == new.name:
        msg = f"Swap of `{old.name}` to `{new.name}`: expected one of them to name the other, both do."
        raise DefinitionError(msg + "\nHint: take `change` out of the definition that serves.")


def withdraw_swap(settings: Settings, approved: SwapProposal, why: str, clock: Clock) -> None:
    """Withdraw a proposed swap, so that a task which is still running cannot make it.

    A row of the history takes its sequence number; the name is served as before. If another swap was made meanwhile,
    nothing is withdrawn.

    Raises:
        LakeError: The history cannot be read, or other processes were always faster.
    """
    evidence = json.dumps({"withdrawn": approved.digest})
    served.record_withdrawal(
        settings, approved.basis.of, why=why, evidence=evidence, clock=clock, expected_sequence=approved.basis.turns[1]
    )


class SwapState(StrEnum):
    """Outcome of an approved swap, by the newest rows of its history."""

    MADE = "made"
    TAKEN_BACK = "taken back"  # the old definition serves its name again
    NEITHER = "neither"  # it was never made, or other swaps followed


def find_state(settings: Settings, approved: SwapProposal) -> SwapState:
    """Find the outcome of a swap, for a task that is retried.

    Raises:
        LakeError: The history cannot be read.
    """
    name = approved.basis.of
    rows = served.read_swaps(settings, name)
    if _is_of(rows[-1:], approved):
        return SwapState.MADE
    is_back = _is_of(rows[-2:-1], approved) and rows[-1].served_by == name
    return SwapState.TAKEN_BACK if is_back else SwapState.NEITHER


def _is_of(rows: Sequence[SwapEvent], approved: SwapProposal) -> bool:
    return any(json.loads(row.evidence or "{}").get("approved") == approved.digest for row in rows)


PATIENCE_SECONDS, BETWEEN_SECONDS = 30.0, 0.2
"""Time that a running driver may take to catch up with the other one, and the polling interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """Result of a swap."""

    comparison: StreamComparison | None  # None: not compared
    stale_pipelines: tuple[str, ...]  # names whose serving table could not be published yet


def swap_definition(  # noqa: PLR0913 -- what is served by what, why, and what a person has seen of it
    settings: Settings,
    new: Pipeline,
    old: Pipeline,
    *,
    reason: str,
    agreed: Agreed,
    clock: Clock,
    approved: SwapApproval | None = None,
) -> Swap:
    """Serve a changed definition under the name of the old one, after comparing both.

    Args:
        settings: Where the lake is.
        new: The changed definition.
        old: The one that its note names.
        reason: A person's reason.
        agreed: The differences to which the person agrees.
        clock: Time of the swap.
        approved: The approval given in Airflow; None: the caller decides.

    Raises:
        DefinitionError: The note does not fit, it is served already, or it has undeclared differences.
        LakeError: The two have no cut in common, cannot be compared, the new one has read less than the old one,
            the basis of the approval has changed, or another process changed something meanwhile.
    """
    check_reason(reason, of="Swap")  # rejected here, before a comparison that takes minutes
    settings, comparison = versions.select_served_version(settings), None
    turn, turns = served.read_next_swap_sequence(settings, old.name), _read_turns(settings, new, old)
    reject_replaced(settings, new, old)
    streams = find_stream(PipelineLake(settings, new)), find_stream(PipelineLake(settings, old))
    if approved is not None:
        check_swap_approval(approved, SwapBasis.read(settings, new, old))
    if not agreed.uncompared:
        comparison = compare_definitions(settings, new, old)
        reject_others(comparison, agreed, f"cutover swap {new.name}")
    elif agreed.differences:
        msg = f"Swap of `{old.name}` to `{new.name}`: expected no `--differences` together with `--uncompared`."
        raise DefinitionError(msg)
    _await_as_much(settings, *streams)
    if approved is not None:
        check_swap_approval(approved, SwapBasis.read(settings, new, old))
    if _read_turns(settings, new, old) != turns:
        msg = f"Swap of `{old.name}` to `{new.name}`: expected the compared versions, others serve now."
        raise LakeError(msg + "\nHint: compare again.")
    evidence, author = _format_evidence(comparison, streams, approved), "" if approved is None else approved.who
    served.record_swap(
        settings, old.name, new.name, why=reason, evidence=evidence, clock=clock, expected_sequence=turn, who=author
    )
    return Swap(comparison=comparison, stale_pipelines=serving_table.update_tables(PipelineLake(settings, new)))


def swap_back(
    lake: PipelineLake,
    *,
    reason: str,
    clock: Clock,
    anyway: bool = False,
    author: str = "",
    turn: int | None = None,
) -> tuple[str, Swap]:
    """Serve a replaced definition under its name again, at once.

    Args:
        lake: Pipeline of the replaced definition.
        reason: A person's reason.
        clock: Time of the swap.
        anyway: Swap even if it has read less than what is served now, so that readers see an older state.
        author: The person who decides; empty: the current user.
        turn: Expected sequence number of the swap; None: the next one.

    Returns:
        The pipeline that served the name, and the result.

    Raises:
        DefinitionError: No definition replaced it, or the reason is empty.
        LakeError: It has no epoch log any more, has read less than what is served, or another process was faster.
    """
    old = lake.pipeline
    check_reason(reason, of="Swap")
    lake = lake.with_settings(stream_version=None)
    turn = served.read_next_swap_sequence(lake.settings, old.name) if turn is None else turn
    rows = served.read_swaps(lake.settings, old.name)
    serves = str(rows[-1].served_by) if rows else old.name  # not followed further: this ends a cycle
    if serves == old.name:
        msg = f"Swap of `{old.name}`: expected one that another definition took the place of, it serves itself."
        raise DefinitionError(msg)
    stream = find_stream(lake)
    served_table = serving_table.read_shown(lake.settings, old.name)
    if served_table is not None and not anyway:
        _await(
            lake.settings,
            stream,
            lambda: served_table.is_covered_by(read_newest_epoch(stream.epoch_log)),
            f"{serves} shows",
        )
    _swap_to_itself(lake, serves, _Reason(why=reason, who=author, clock=clock), turn)
    return serves, Swap(comparison=None, stale_pipelines=serving_table.update_tables(lake, anyway=anyway))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reason:
    """Reason, author and time of a swap."""

    why: str
    who: str
    clock: Clock


def _swap_to_itself(lake: PipelineLake, serves: str, reason: _Reason, turn: int) -> None:
    """Serve a name by its definition; if its tables were deleted meanwhile, revert with another row.

    Raises:
        LakeError: The tables were deleted.
    """
    settings, old = lake.settings, lake.pipeline
    turns = _read_turns(settings, old)
    find_stream(lake)  # again: waiting took time
    served.record_swap(
        settings,
        old.name,
        old.name,
        why=reason.why,
        evidence="",
        clock=reason.clock,
        expected_sequence=turn,
        who=reason.who,
    )
    if _read_turns(settings, old) != turns:
        served.record_swap(
            settings, old.name, serves, why="taken back", evidence="", clock=reason.clock, expected_sequence=turn + 1
        )
        msg = f"Swap of `{old.name}`: expected unchanged versions, one was deleted or began to serve meanwhile."
        raise LakeError(
            msg + f"\nHint: `{serves}` serves as before; `cutover unserved {old.name}` lists the tables that exist."
        )


def _read_turns(settings: Settings, *pipelines: Pipeline) -> tuple[int, ...]:
    return tuple(versions.read_next_version_sequence(PipelineLake(settings, pipeline)) for pipeline in pipelines)


def _format_evidence(
    stream_comparison: StreamComparison | None, streams: tuple[Stream, Stream], approved: SwapApproval | None
) -> str:
    """Return the evidence of a swap for the history: both streams with fingerprints, note and comparison, as JSON."""
    note = streams[0].pipeline.change
    evidence = {
        "said": describe_comparison(stream_comparison),
        "streams": {stream.text: stream.version.result_fingerprint for stream in streams},
        "change": None if note is None else asdict(note),
        "comparison": None if stream_comparison is None else asdict(stream_comparison),
        "approved": None if approved is None else approved.proposal.digest,
    }
    return json.dumps(evidence, sort_keys=True)


def _await_as_much(settings: Settings, new: Stream, old: Stream) -> None:
    """Wait until the new stream has read as much as the old one; do not wait if they read different logs.

    Raises:
        LakeError: It has not caught up in time.
    """
    aim = read_newest_epoch(old.epoch_log)
    if read_newest_epoch(new.epoch_log).topic_id == aim.topic_id:
        _await(settings, new, lambda: has_read_as_much(read_newest_epoch(new.epoch_log), aim), f"{old.text} has")


def _await(settings: Settings, stream: Stream, look: Callable[[], bool], subject: str) -> None:
    started, name = time.monotonic(), stream.pipeline.name
    while not look():
        last_heartbeat = heartbeat.find_heartbeat(settings, name)
        if last_heartbeat is None or not last_heartbeat.alive or time.monotonic() > started + PATIENCE_SECONDS:
            msg = f"{stream.text}: expected to have read what {subject}, it has not."
            hint = f"readers would go back in time. Let its driver continue (`cutover stream {name} --detach`)"
            raise LakeError(msg + f"\nHint: {hint}, and try again.")
        time.sleep(BETWEEN_SECONDS)
