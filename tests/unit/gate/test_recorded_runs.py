"""What the gate makes of lines of the history, moves and losses: whole values, and what older lines do not say."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cutover.definition.model.pipeline import Policy
from cutover.lake.control.stages import Stage
from cutover.lake.journal_rows import GateEvent
from cutover.reconcile.gate import evidence
from cutover.reconcile.gate.decide import Condition, EvidenceRun, GateDecision, GateEvidence
from tests.unit.gate.test_decide import now
from tests.unit.gate.test_evidence import AT, FLIGHTS, LOSS, VERSION, cut, move, row, runs, said

HOUR = timedelta(hours=1)
ACCEPTED = [
    {"rule": "moved", "digest": "d1", "state": "in_force", "rows": 3},
    {"rule": "unused", "digest": "d2", "state": "in_force", "rows": 0},
    {"rule": "small", "digest": "d3", "state": "exceeded", "rows": 9, "why": "9 rows, of 5"},
    {"rule": "old", "digest": "d4", "state": "expired", "rows": 2},
]


def test_a_line_that_was_made_again_is_one_run_with_all_that_the_gate_asks() -> None:
    seal = cut(4, 5) | {"watermark": "1970-01-01T00:00:01Z"}
    first, again = (said(row(4, sequence=n, at=AT + n * HOUR), seal=seal, accepted=ACCEPTED) for n in (6, 8))

    assert runs([first, row(5, sequence=7), again])[-1] == EvidenceRun(
        run_id="r4",
        at=AT + 8 * HOUR,
        epoch=4,
        outcome="EXPLAINED",
        is_within_policy=True,
        windows=5,
        covers_all_windows=True,
        end=4 + 5,
        rows_by_cause=(("late", 3),),
        watermark=1_000_000,
        first_sequence=6,
        sequence=8,
        accepted_by=(("moved", "d1"),),
        exceeded=(("small", "9 rows, of 5"),),
    )


def test_a_line_that_compared_nothing_has_no_window_and_no_cause() -> None:
    (found,) = runs([row(None, result="{}", verdict="NOT_COMPARABLE", exit_code=2, sequence=3)])

    assert (found.windows, found.rows_by_cause, found.end, found.watermark) == (0, (), None, None)
    assert (found.accepted_by, found.exceeded, found.epoch) == ((), (), -1)


def test_a_verdict_that_does_not_agree_is_never_within_policy() -> None:
    assert [run.is_within_policy for run in runs([row(1, verdict="DIVERGED", exit_code=0)])] == [False]


def test_agreement_with_any_sql_counts_where_none_is_in_force() -> None:
    seal = {"fingerprints": {"batch_definition": "old"}}

    assert [run.epoch for run in runs([said(row(1), seal=seal)])] == [1]


@pytest.mark.parametrize(
    ("told", "allowed", "within"),
    [
        pytest.param({}, 0, True, id="a report that tells nothing"),
        pytest.param({"unexplained": 1}, 0, False, id="one row that nothing explains"),
        pytest.param({"unexplained": 2, "accepted": 2}, 0, True, id="all of them are accepted"),
        pytest.param({"unexplained": 3, "accepted": 2}, 1, True, id="as many as the policy allows"),
        pytest.param({"unexplained": 3, "accepted": 1}, 1, False, id="one more"),
    ],
)
def test_what_nothing_explains_is_held_to_the_policy_less_what_is_accepted(
    told: dict[str, int], allowed: int, within: bool
) -> None:
    found = runs([said(row(1), policy=told)], policy=Policy(max_unexplained=allowed))

    assert [run.is_within_policy for run in found] == [within]


@pytest.mark.parametrize(
    ("history", "epochs"),
    [
        pytest.param([move("advanced", 3), move("rolled_back", 6)], [7], id="before the last of two moves"),
        pytest.param([move("advanced", 3), move("rolled_back", 7)], [7], id="recorded as the move was decided"),
        pytest.param([replace(move("advanced", 3), evidence="{}")], [5, 7], id="a move that kept nothing"),
        pytest.param([move("advanced", 3, counted=(4, 5))], [7], id="a cut that was counted"),
        pytest.param([move("advanced", 3, counted=(4,), stream_version=0)], [5, 7], id="a move of another version"),
    ],
)
def test_good_runs_speak_behind_the_last_move_and_ahead_of_what_was_counted(
    history: list[GateEvent], epochs: list[int]
) -> None:
    found = runs([row(2), row(5), row(7)])

    assert [run.epoch for run in evidence.select_runs_after_last_move(found, history, VERSION)] == epochs


def test_a_cut_that_ends_where_a_counted_one_did_is_no_news() -> None:
    counted = move("advanced", 3, counted=(2,))
    kept = json.loads(counted.evidence)
    kept["counted"][0]["end"] = 9
    history = [replace(counted, evidence=json.dumps(kept))]
    found = runs([said(row(5), seal=cut(4, 5)), said(row(6), seal=cut(4, 6))])

    assert [run.epoch for run in evidence.select_runs_after_last_move(found, history, VERSION)] == [6]


@pytest.mark.parametrize(
    ("history", "stands"),
    [
        pytest.param([move("advanced", 4, counted=(1, 3))], False, id="one run that counted stands behind it"),
        pytest.param([move("advanced", 4, counted=(1, 2))], True, id="none does"),
        pytest.param([move("advanced", 3, counted=(1, 3))], True, id="recorded as the move was decided"),
        pytest.param(
            [move("advanced", 2, counted=(1,)), move("advanced", 4, counted=(3,))], False, id="the later advance knew"
        ),
        pytest.param([move("rolled_back", 4, counted=(3,))], True, id="a way back counts nothing"),
    ],
)
def test_a_bad_run_is_over_once_an_advance_knew_it_and_counted_one_behind_it(
    history: list[GateEvent], stands: bool
) -> None:
    bad = runs([row(3, exit_code=1)])

    assert evidence.select_runs_after_last_move(bad, history, VERSION) == (bad if stands else ())


def test_a_step_with_an_unknown_end_is_an_unknown_number_of_offsets() -> None:
    known, unknown = replace(LOSS, sequence=3), replace(LOSS, sequence=3, partition=1, next=None)

    (found,) = evidence.list_lost_windows(FLIGHTS, [known, unknown], LOSS.stream_version)

    assert found.text == (
        "an unknown number of offsets of flights were lost, accepted 2026-11-21 12:00 UTC by me: "
        "windows that they touch read incomplete(lost)"
    )


RUN = EvidenceRun(run_id="r4", at=AT, epoch=4, outcome="EXPLAINED", is_within_policy=True, end=9)
DECISION = GateDecision(
    move="advance",
    stage=Stage.LAMBDA,
    target=Stage.SHADOW,
    conditions=(Condition(name="runs", is_met=True, detail="1 of 1", number=1, threshold=1),),
    eligible_runs=(RUN,),
)
SEEN = GateEvidence(result_fingerprint="aa", stream_version=3)
KEPT = {
    "conditions": [
        {
            "name": "runs",
            "is_met": True,
            "detail": "1 of 1",
            "number": 1,
            "threshold": 1,
            "sense": "at most",
            "unit": "",
            "to_pass": "",
        }
    ],
    "counted": [{"run_id": "r4", "epoch": 4, "end": 9, "at": "2026-11-21T12:00:00+00:00"}],
    "compared_now": None,
    "result_fingerprint": "aa",
    "stream_version": 3,
    "approved": None,
}


@pytest.mark.parametrize(
    ("seen", "more", "kept"),
    [
        pytest.param(SEEN, {}, {}, id="plain"),
        pytest.param(replace(SEEN, present=now()), {}, {"compared_now": "r3"}, id="compared in the move"),
        pytest.param(
            SEEN,
            {"approved": "abc", "audit": "samples", "because": {"audit": 1}},
            {"approved": "abc", "audit": "samples", "because": {"audit": 1}},
            id="approved, with a reason",
        ),
    ],
)
def test_the_history_keeps_what_a_decision_was_made_on(
    seen: GateEvidence, more: dict[str, Any], kept: dict[str, Any]
) -> None:
    found = json.loads(evidence.encode_evidence(DECISION, seen, **more))

    assert found == KEPT | kept | {"hash": evidence.digest(KEPT | kept)}
