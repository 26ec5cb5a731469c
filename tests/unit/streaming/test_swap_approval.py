"""Approvals of a swap: bound to every part of its basis and to the person."""

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from cutover.errors import LakeError
from cutover.streaming.replacement.swap import SwapApproval, SwapBasis, SwapProposal, check_swap_approval

BASIS = SwapBasis(
    pipeline="clicks_2",
    of="clicks",
    turns=(0, 0),
    versions=(1, 1),
    results=("a", "b"),
    lateness=("c", "d"),
    note="{}",
)
PROPOSAL = SwapProposal(run="r", basis=BASIS, epochs=(3, 4), found="0 of 9 rows differ")
OTHERS: dict[str, Any] = {
    "pipeline": "clicks_3",
    "of": "visits",
    "turns": (1, 0),
    "versions": (1, 2),
    "results": ("a", "e"),
    "lateness": ("f", "d"),
    "note": "null",
}


def test_every_part_of_the_basis_has_a_case() -> None:
    assert set(OTHERS) == {field.name for field in fields(SwapBasis)}


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_a_changed_basis_rejects_the_swap(name: str) -> None:
    approved = SwapApproval(proposal=PROPOSAL, who="airflow:ada")

    check_swap_approval(approved, BASIS)
    with pytest.raises(LakeError, match="expected the facts that were approved, got changes: "):
        check_swap_approval(approved, replace(BASIS, **{name: OTHERS[name]}))


def test_an_approval_needs_a_person_and_a_basis() -> None:
    with pytest.raises(LakeError, match="got no name"):
        check_swap_approval(SwapApproval(proposal=PROPOSAL, who=" "), BASIS)


def test_a_proposal_is_passed_as_json_for_each_run() -> None:
    handed = json.loads(json.dumps(PROPOSAL.to_json() | {"text": "shown"}))

    assert SwapProposal.from_json(handed) == PROPOSAL
    assert SwapProposal.from_json(handed).digest == PROPOSAL.digest
    assert replace(PROPOSAL, run="s").digest != PROPOSAL.digest
