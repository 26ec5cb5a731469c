"""Approvals are bound to the evidence shown: if it has changed, the move is rejected and nothing is written."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cutover.clock import SystemClock
from cutover.definition import Count, Pipeline
from cutover.definition.model.policy import Stage
from cutover.errors import LakeError
from cutover.lake.control.served import current_stage, read_gate_events
from cutover.lake.journal import Journal, SequenceConflictError
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.gate import evidence, stage
from cutover.reconcile.gate.decide import EvidenceRun, GateEvidence, PresentState, Replayability
from cutover.reconcile.gate.stage import StageApproval, StageProposal
from cutover.settings import Settings
from tests.integration.gate.test_stage import clicks, pipelines, place, record_move  # noqa: F401 -- fixtures
from tests.support.history.self_tests import make_passed

CLOCK = SystemClock()


class Evidence:
    """Evidence that the gate reads, in place of a lake with weeks of history; tests change it in between."""

    def __init__(self) -> None:
        self.runs = tuple(run(epoch) for epoch in (1, 2))
        self.version = 0

    def read(self, *_: object) -> GateEvidence:
        replay = Replayability(retention=None, replay_time=timedelta(hours=1))
        gate_evidence = GateEvidence(
            runs=self.runs, replay=replay, self_test=make_passed(CLOCK.now()), stream_version=self.version
        )
        return replace(gate_evidence, audit_refusal=None)


def run(epoch: int, **changes: object) -> EvidenceRun:
    evidence_run = EvidenceRun(
        run_id=f"r{epoch}", at=CLOCK.now(), epoch=epoch, outcome="CONSISTENT", is_within_policy=True
    )
    return replace(evidence_run, **changes)  # type: ignore[arg-type]


@pytest.fixture
def recorded_evidence(monkeypatch: pytest.MonkeyPatch) -> Evidence:
    gate_evidence = Evidence()
    monkeypatch.setattr(evidence, "read_evidence", gate_evidence.read)
    now = PresentState(run=run(3), reason="they agree")
    monkeypatch.setattr(stage, "examine_present", lambda *_: now)
    return gate_evidence


def make_proposal(lake: PipelineLake) -> StageProposal:
    _, proposal = stage.make_stage_proposal(lake, CLOCK)
    assert proposal is not None
    return proposal


def move(lake: PipelineLake, proposal: StageProposal, person: str = "airflow:ada") -> Stage | None:
    yes = StageApproval(proposal=proposal, who=person)
    return stage.move(lake, "advance", "it is time", CLOCK, approved=yes).target


@pytest.mark.usefixtures("recorded_evidence")
def test_approved_move_keeps_who_why_and_what_was_approved(place: Settings, clicks: Pipeline) -> None:  # noqa: F811
    lake = PipelineLake(place, clicks)
    proposal = make_proposal(lake)

    assert move(lake, StageProposal.from_json(json.loads(json.dumps(proposal.to_json())))) is Stage.SHADOW
    (row,) = read_gate_events(place, "clicks")
    assert (row.who, row.why, row.stage) == ("airflow:ada", "it is time", "SHADOW")
    assert json.loads(row.evidence)["approved"] == proposal.digest
    assert stage.is_applied(place, proposal)


@pytest.mark.usefixtures("recorded_evidence")
def test_approval_moves_once(place: Settings, clicks: Pipeline) -> None:  # noqa: F811
    lake = PipelineLake(place, clicks)
    proposal = make_proposal(lake)
    move(lake, proposal)

    with pytest.raises(LakeError, match="moves and withdrawals: 0 was approved, it is 1"):
        move(lake, proposal)
    assert len(read_gate_events(place, "clicks")) == 1


@pytest.mark.usefixtures("recorded_evidence")
def test_approval_by_nobody_is_refused_and_writes_nothing(place: Settings, clicks: Pipeline) -> None:  # noqa: F811
    lake = PipelineLake(place, clicks)
    with pytest.raises(LakeError, match="expected the person who approved it, got no name"):
        move(lake, make_proposal(lake), person=" ")
    assert read_gate_events(place, "clicks") == []


def test_a_move_that_is_withdrawn_at_its_commit_is_not_made(
    place: Settings,  # noqa: F811
    clicks: Pipeline,  # noqa: F811
    recorded_evidence: Evidence,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert recorded_evidence.runs
    lake = PipelineLake(place, clicks)
    proposal = make_proposal(lake)

    def compare_and_withdraw(*_: object) -> PresentState:
        stage.withdraw_move(place, proposal, "it was marked failed", CLOCK)
        return PresentState(run=run(3), reason="they agree")

    monkeypatch.setattr(stage, "examine_present", compare_and_withdraw)

    with pytest.raises(SequenceConflictError):
        move(lake, proposal)
    (row,) = read_gate_events(place, "clicks")
    assert (row.event, row.why) == ("withdrawn", "it was marked failed")
    assert (current_stage(lake), stage.is_applied(place, proposal)) == (Stage.LAMBDA, False)

    monkeypatch.setattr(stage, "examine_present", lambda *_: PresentState(run=run(3), reason="they agree"))
    assert move(lake, make_proposal(lake)) is Stage.SHADOW  # the evidence for it still holds
    stage.withdraw_move(place, proposal, "too late", CLOCK)
    assert len(read_gate_events(place, "clicks")) == 2


@pytest.mark.usefixtures("recorded_evidence")
def test_a_withdrawal_that_the_move_overtakes_leaves_the_move(
    place: Settings,  # noqa: F811
    clicks: Pipeline,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = PipelineLake(place, clicks)
    proposal, append = make_proposal(lake), Journal.append

    def append_behind_the_move(*arguments: Any, **keywords: Any) -> int:
        monkeypatch.setattr(Journal, "append", append)
        assert move(lake, proposal) is Stage.SHADOW
        return append(*arguments, **keywords)

    monkeypatch.setattr(Journal, "append", append_behind_the_move)

    stage.withdraw_move(place, proposal, "it was marked failed", CLOCK)
    assert stage.is_applied(place, proposal)
    assert [row.event for row in read_gate_events(place, "clicks")] == ["advanced"]


@pytest.mark.quick
def test_what_changes_during_the_look_is_not_approved(
    place: Settings,  # noqa: F811
    clicks: Pipeline,  # noqa: F811
    recorded_evidence: Evidence,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = PipelineLake(place, clicks)
    proposal = make_proposal(lake)

    def change_and_compare(*_: object) -> PresentState:
        recorded_evidence.version = 1
        return PresentState(run=run(3), reason="they agree")

    monkeypatch.setattr(stage, "examine_present", change_and_compare)

    with pytest.raises(LakeError, match="version of the stream: 0 was approved, it is 1"):
        move(lake, proposal)
    assert read_gate_events(place, "clicks") == []


def test_old_runs_that_expire_take_nothing_from_an_approval(
    place: Settings,  # noqa: F811
    clicks: Pipeline,  # noqa: F811
    recorded_evidence: Evidence,
) -> None:
    recorded_evidence.runs = tuple(run(epoch, at=CLOCK.now() - timedelta(days=7 - epoch)) for epoch in range(8))
    lake = PipelineLake(place, clicks)
    proposal = make_proposal(lake)
    assert proposal.runs == tuple(f"r{epoch}" for epoch in range(8))[-clicks.policy.runs :]

    recorded_evidence.runs = tuple(run(epoch, at=CLOCK.now() - timedelta(days=9 - epoch)) for epoch in range(8))

    assert move(lake, proposal) is Stage.SHADOW


def another_move(lake: PipelineLake, _evidence: Evidence) -> Pipeline:
    record_move(lake, "SHADOW")
    record_move(lake, "LAMBDA")
    return lake.pipeline


def another_version(lake: PipelineLake, evidence: Evidence) -> Pipeline:
    evidence.version = 1
    return lake.pipeline


def expired_run(lake: PipelineLake, evidence: Evidence) -> Pipeline:
    evidence.runs = (*(run(epoch, at=CLOCK.now() - timedelta(days=8)) for epoch in (1, 2)), run(3))
    return lake.pipeline


def bad_run(lake: PipelineLake, evidence: Evidence) -> Pipeline:
    evidence.runs = (*evidence.runs, run(3, is_within_policy=False, outcome="DIVERGED"), run(4), run(5))
    return lake.pipeline


def another_definition(lake: PipelineLake, _evidence: Evidence) -> Pipeline:
    return replace(lake.pipeline, measures={"others": Count()})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (another_move, "moves and withdrawals: 0 was approved, it is 2"),
        (another_version, "version of the stream: 0 was approved, it is 1"),
        (expired_run, "run r2 was approved and is no longer eligible"),
        (bad_run, "run r2 was approved"),
        (another_definition, "definition: "),
    ],
)
def test_approval_of_what_is_no_more_is_refused_and_writes_nothing(
    place: Settings,  # noqa: F811
    clicks: Pipeline,  # noqa: F811
    recorded_evidence: Evidence,
    change: Callable[[PipelineLake, Evidence], Pipeline],
    message: str,
) -> None:
    lake = PipelineLake(place, clicks)
    proposal = make_proposal(lake)
    now = change(lake, recorded_evidence)
    events = read_gate_events(place, "clicks")

    with pytest.raises(LakeError, match=message):
        move(PipelineLake(place, now), proposal)
    assert read_gate_events(place, "clicks") == events


@pytest.mark.usefixtures("recorded_evidence")
def test_newer_good_run_leaves_an_approval_in_force(
    place: Settings,  # noqa: F811
    clicks: Pipeline,  # noqa: F811
    recorded_evidence: Evidence,
) -> None:
    lake = PipelineLake(place, clicks)
    proposal = make_proposal(lake)
    recorded_evidence.runs = (*recorded_evidence.runs, run(3))

    assert move(lake, proposal) is Stage.SHADOW


def test_nothing_is_proposed_while_something_is_missing(place: Settings, clicks: Pipeline) -> None:  # noqa: F811
    lake = PipelineLake(place, clicks)
    decision, proposal = stage.make_stage_proposal(lake, CLOCK)

    assert (proposal, decision.allowed, current_stage(lake)) == (None, False, Stage.LAMBDA)


def test_disagreement_at_the_moment_of_the_move_outweighs_an_approval(
    place: Settings,  # noqa: F811
    clicks: Pipeline,  # noqa: F811
    recorded_evidence: Evidence,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = PipelineLake(place, clicks)
    proposal = make_proposal(lake)
    assert recorded_evidence.runs
    bad = PresentState(run=run(3, is_within_policy=False, outcome="DIVERGED"), reason="they differ")
    monkeypatch.setattr(stage, "examine_present", lambda *_: bad)

    decision = stage.move(lake, "advance", "x", CLOCK, approved=StageApproval(proposal=proposal, who="ada"))

    assert (decision.allowed, Path(place.home).is_dir()) == (False, True)
    assert read_gate_events(place, "clicks") == []


@pytest.mark.usefixtures("recorded_evidence")
def test_what_audits_are_asked_for_is_part_of_what_is_approved_before_kappa(place: Settings, clicks: Pipeline) -> None:  # noqa: F811
    other = replace(clicks, policy=replace(clicks.policy, audit=None))
    lake = PipelineLake(place, clicks)
    assert make_proposal(lake).digest == make_proposal(PipelineLake(place, other)).digest
    record_move(lake, "SHADOW")

    with pytest.raises(LakeError, match=r"`policy\.audit`: a fault in 1 % .* was approved, it is no samples"):
        move(PipelineLake(place, other), make_proposal(lake))
    assert move(lake, make_proposal(lake)) is Stage.KAPPA
    assert "a fault in 1 %" in json.loads(read_gate_events(place, "clicks")[-1].evidence)["audit"]
