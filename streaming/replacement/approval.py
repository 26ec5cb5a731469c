"""Approval of a swap: one definition in place of another, as both were when they were compared.

A swap is rejected once its basis has changed: a version was added or began to serve, a definition or its note changed,
another swap was made, or this one was withdrawn. When the swap is made, both are compared again, and a difference that
the note does not declare rejects it too. The number of rows that differ as declared may grow while records arrive.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Self

from cutover import changes
from cutover.changes import Approval
from cutover.clock import Clock
from cutover.definition.compile.fingerprint import lateness_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError
from cutover.lake.control import pins, served, versions
from cutover.lake.journal_rows import SwapEvent
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from cutover.streaming.replacement.common_cut import find_stream
from cutover.streaming.replacement.compare import StreamComparison, compare_definitions
from cutover.streaming.replacement.replay import Agreed, reject_others


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
    settings = versions.looking_at_served(settings)
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
