"""Evidence parsed from recorded comparisons, moves and losses; compared as complete values, including older records."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cutover.definition.model.policy import Policy, Stage
from cutover.lake.journal_rows import GateEvent
from cutover.reconcile.gate import evidence
from cutover.reconcile.gate.decide import Condition, EvidenceRun, GateDecision, GateEvidence
from tests.support.history.gate_evidence import make_present_state
from tests.unit.gate.test_evidence import AT, FLIGHTS, LOSS, VERSION, cut, extend_report, move, row, runs

HOUR = timedelta(hours=1)
ACCEPTED = [
    {"rule": "moved", "digest": "d1", "state": "in_force", "rows": 3},
    {"rule": "unused", "digest": "d2", "state": "in_force", "rows": 0},
    {"rule": "small", "digest": "d3", "state": "exceeded", "rows": 9, "why": "9 rows, of 5"},
    {"rule": "old", "digest": "d4", "state": "expired", "rows": 2},
]


def test_a_repeated_comparison_is_one_run_with_all_its_fields() -> None:
    seal = cut(4, 5) | {"watermark": "1970-01-01T00:00:01Z"}
    original, repeated = (
        extend_report(row(4, sequence=n, at=AT + n * HOUR), seal=seal, accepted=ACCEPTED) for n in (6, 8)
    )

    assert runs([original, row(5, sequence=7), repeated])[-1] == EvidenceRun(
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


def test_a_comparison_of_nothing_has_no_window_and_no_cause() -> None:
    (recorded_run,) = runs([row(None, result="{}", verdict="NOT_COMPARABLE", exit_code=2, sequence=3)])

    assert (recorded_run.windows, recorded_run.rows_by_cause, recorded_run.end, recorded_run.watermark) == (
        0,
        (),
        None,
        None,
    )
    assert (recorded_run.accepted_by, recorded_run.exceeded, recorded_run.epoch) == ((), (), -1)


def test_a_verdict_that_does_not_agree_is_never_within_policy() -> None:
    assert [run.is_within_policy for run in runs([row(1, verdict="DIVERGED", exit_code=0)])] == [False]


def test_a_run_with_any_sql_counts_if_none_is_current() -> None:
    seal = {"fingerprints": {"batch_definition": "old"}}

    assert [run.epoch for run in runs([extend_report(row(1), seal=seal)])] == [1]


@pytest.mark.parametrize(
    ("policy_result", "allowed", "is_within_policy"),
    [
        pytest.param({}, 0, True, id="an empty policy result"),
        pytest.param({"unexplained": 1}, 0, False, id="one row that nothing explains"),
        pytest.param({"unexplained": 2, "accepted": 2}, 0, True, id="all of them are accepted"),
        pytest.param({"unexplained": 3, "accepted": 2}, 1, True, id="as many as the policy allows"),
        pytest.param({"unexplained": 3, "accepted": 1}, 1, False, id="one more"),
    ],
)
def test_unexplained_rows_minus_accepted_ones_are_limited_by_the_policy(
    policy_result: dict[str, int], allowed: int, is_within_policy: bool
) -> None:
    evidence_runs = runs([extend_report(row(1), policy=policy_result)], policy=Policy(max_unexplained=allowed))

    assert [run.is_within_policy for run in evidence_runs] == [is_within_policy]


@pytest.mark.parametrize(
    ("history", "epochs"),
    [
        pytest.param([move("advanced", 3), move("rolled_back", 6)], [7], id="before the last of two moves"),
        pytest.param([move("advanced", 3), move("rolled_back", 7)], [7], id="recorded as the move was decided"),
        pytest.param([replace(move("advanced", 3), evidence="{}")], [5, 7], id="a move that kept nothing"),
        pytest.param([move("advanced", 3, counted_epochs=(4, 5))], [7], id="a cut that was counted"),
        pytest.param(
            [move("advanced", 3, counted_epochs=(4,), stream_version=0)], [5, 7], id="a move of another version"
        ),
    ],
)
def test_good_runs_are_eligible_after_the_last_move_and_the_counted_cuts(
    history: list[GateEvent], epochs: list[int]
) -> None:
    evidence_runs = runs([row(2), row(5), row(7)])

    assert [run.epoch for run in evidence.select_runs_after_last_move(evidence_runs, history, VERSION)] == epochs


def test_a_cut_that_ends_at_a_counted_offset_is_ineligible() -> None:
    advance_event = move("advanced", 3, counted_epochs=(2,))
    payload = json.loads(advance_event.evidence)
    payload["counted"][0]["end"] = 9
    history = [replace(advance_event, evidence=json.dumps(payload))]
    evidence_runs = runs([extend_report(row(5), seal=cut(4, 5)), extend_report(row(6), seal=cut(4, 6))])

    assert [run.epoch for run in evidence.select_runs_after_last_move(evidence_runs, history, VERSION)] == [6]


@pytest.mark.parametrize(
    ("history", "stands"),
    [
        pytest.param([move("advanced", 4, counted_epochs=(1, 3))], False, id="one run that counted stands behind it"),
        pytest.param([move("advanced", 4, counted_epochs=(1, 2))], True, id="none does"),
        pytest.param([move("advanced", 3, counted_epochs=(1, 3))], True, id="recorded as the move was decided"),
        pytest.param(
            [move("advanced", 2, counted_epochs=(1,)), move("advanced", 4, counted_epochs=(3,))],
            False,
            id="the later advance knew",
        ),
        pytest.param([move("rolled_back", 4, counted_epochs=(3,))], True, id="a rollback counts no run"),
    ],
)
def test_a_bad_run_is_ignored_after_an_advance_that_counted_a_later_run(history: list[GateEvent], stands: bool) -> None:
    bad = runs([row(3, exit_code=1)])

    assert evidence.select_runs_after_last_move(bad, history, VERSION) == (bad if stands else ())


def test_a_loss_with_an_unknown_end_has_an_unknown_number_of_offsets() -> None:
    known_end, unknown = replace(LOSS, sequence=3), replace(LOSS, sequence=3, partition=1, next=None)

    (lost_windows,) = evidence.list_lost_windows(FLIGHTS, [known_end, unknown], LOSS.stream_version)

    assert lost_windows.text == (
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
    ("gate_evidence", "more", "extra_fields"),
    [
        pytest.param(SEEN, {}, {}, id="plain"),
        pytest.param(
            replace(SEEN, present=make_present_state()), {}, {"compared_now": "r3"}, id="compared in the move"
        ),
        pytest.param(
            SEEN,
            {"approved": "abc", "audit": "samples", "because": {"audit": 1}},
            {"approved": "abc", "audit": "samples", "because": {"audit": 1}},
            id="approved, with a reason",
        ),
    ],
)
def test_the_history_records_the_evidence_of_a_decision(
    gate_evidence: GateEvidence, more: dict[str, Any], extra_fields: dict[str, Any]
) -> None:
    payload = json.loads(evidence.encode_evidence(DECISION, gate_evidence, **more))

    assert payload == KEPT | extra_fields | {"hash": evidence.compute_evidence_digest(KEPT | extra_fields)}
