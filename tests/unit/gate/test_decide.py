"""Gate moves as tables: stage, evidence and decision."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from cutover.definition.model.policy import Policy, Stage
from cutover.reconcile.gate.decide import (
    EvidenceRun,
    GateDecision,
    GateEvidence,
    PresentState,
    Replayability,
    decide,
)
from cutover.reconcile.result.measurements import SelfTest
from cutover.reconcile.result.parts import rate
from cutover.reconcile.result.text import THIN
from tests.support.history.gate_evidence import (
    DAY,
    HOUR,
    LOSS,
    NOW,
    POLICY,
    ROOMY,
    TESTED,
    make_present_state,
    make_run,
)
from tests.support.history.self_tests import make_passed


def advance(*runs: EvidenceRun, stage: Stage = Stage.LAMBDA, replay: Replayability | None = ROOMY) -> GateDecision:
    evidence = GateEvidence(runs=runs, replay=replay, self_test=TESTED, audit_refusal=None)
    return decide(stage, evidence, "advance", POLICY, NOW)


@pytest.mark.parametrize(
    ("stage", "target"), [(Stage.LAMBDA, Stage.SHADOW), (Stage.SHADOW, Stage.KAPPA), (Stage.KAPPA, None)]
)
def test_enough_evidence_advances_one_stage(stage: Stage, target: Stage | None) -> None:
    decision = advance(make_run(1), make_run(2), make_run(3), stage=stage)

    assert (decision.target, decision.allowed) == (target, target is not None)


@pytest.mark.parametrize(
    ("decision", "missing"),
    [
        pytest.param(advance(make_run(1), make_run(2)), ["runs"], id="too few"),
        pytest.param(advance(), ["runs", "newest run", "freshness"], id="no run"),
        pytest.param(
            advance(make_run(1), make_run(2), make_run(3), make_run(4, is_within_policy=False, outcome="DIVERGED")),
            ["runs", "newest run", "freshness"],
            id="broken",
        ),
        pytest.param(advance(make_run(1), make_run(2), make_run(3), replay=None), ["replay"], id="log silent"),
        pytest.param(
            advance(make_run(1), make_run(2), make_run(3), replay=Replayability(retention=HOUR, replay_time=HOUR)),
            ["replay"],
            id="kept too short",
        ),
        pytest.param(
            advance(make_run(1), make_run(2), make_run(3), replay=Replayability(retention=DAY, replay_time=None)),
            ["replay"],
            id="not measured",
        ),
    ],
)
def test_missing_evidence_rejects_the_move_and_is_named(decision: GateDecision, missing: list[str]) -> None:
    assert (decision.allowed, [line.split(":")[0] for line in decision.missing]) == (False, missing)


NEEDED = DAY + 2 * DAY + 2 * HOUR  # detection, approval, twice the replay


@pytest.mark.parametrize(
    ("replay", "missing"),
    [
        pytest.param(Replayability(retention=NEEDED, replay_time=HOUR), [], id="long enough"),
        pytest.param(
            Replayability(retention=NEEDED - timedelta(seconds=1), replay_time=HOUR), ["replay"], id="a second less"
        ),
        pytest.param(Replayability(retention=timedelta(0), replay_time=HOUR), ["replay"], id="compacted"),
        pytest.param(
            Replayability(retention=None, replay_time=HOUR, is_bounded=True, retained_since=NOW - NEEDED),
            [],
            id="holds enough",
        ),
        pytest.param(
            Replayability(retention=None, replay_time=HOUR, is_bounded=True, retained_since=NOW - NEEDED + HOUR),
            ["replay by size"],
            id="too small so far",
        ),
        pytest.param(
            Replayability(retention=None, replay_time=HOUR, is_bounded=True), ["replay by size"], id="nothing read"
        ),
        pytest.param(
            Replayability(retention=None, replay_time=HOUR, is_bounded=True, retained_since=NOW + NEEDED),
            ["replay by size"],
            id="a clock that ran ahead",
        ),
    ],
)
def test_retention_covers_detection_approval_and_replays(replay: Replayability, missing: list[str]) -> None:
    decision = advance(make_run(1), make_run(2), make_run(3), replay=replay)

    assert [line.split(":")[0] for line in decision.missing] == missing


@pytest.mark.parametrize(
    ("stage", "to", "allowed"),
    [
        (Stage.KAPPA, Stage.LAMBDA, True),
        (Stage.KAPPA, Stage.SHADOW, True),
        (Stage.KAPPA, Stage.KAPPA, False),
        (Stage.SHADOW, Stage.LAMBDA, True),
        (Stage.SHADOW, Stage.SHADOW, False),
        (Stage.SHADOW, Stage.KAPPA, False),
        (Stage.LAMBDA, Stage.LAMBDA, False),
        (Stage.LAMBDA, Stage.KAPPA, False),
    ],
)
def test_rollback_needs_no_evidence_and_never_advances(stage: Stage, to: Stage, *, allowed: bool) -> None:
    decision = decide(stage, GateEvidence(), "rollback", POLICY, NOW, back_to=to)

    assert (decision.target, decision.allowed) == (to if allowed else None, allowed)


def with_loss(*runs: EvidenceRun) -> GateDecision:
    return decide(
        Stage.LAMBDA, GateEvidence(runs=runs, replay=ROOMY, losses=(LOSS,), self_test=TESTED), "advance", POLICY, NOW
    )


@pytest.mark.parametrize(
    ("runs", "eligible_epochs", "missing"),
    [
        pytest.param([make_run(n, watermark=n * 250) for n in (2, 3, 4)], [2, 3, 4], [], id="all behind the loss"),
        pytest.param(
            [make_run(n, watermark=n * 249) for n in (2, 3, 4)], [3, 4], ["runs"], id="first leaves some open"
        ),
        pytest.param(
            [make_run(n, watermark=499) for n in (1, 2, 3)],
            [],
            ["runs", "freshness", "losses"],
            id="touched windows are inside",
        ),
        pytest.param(
            [make_run(n) for n in (1, 2, 3)], [], ["runs", "freshness", "losses"], id="no watermark is no proof"
        ),
        pytest.param(
            [make_run(1, watermark=900, age=-HOUR), *(make_run(n, watermark=900, age=HOUR * n) for n in (2, 3))],
            [2, 3],
            ["runs"],
            id="a cut before the loss, whatever the clocks say",
        ),
        pytest.param([], [], ["runs", "newest run", "freshness", "losses"], id="no run since"),
    ],
)
def test_evidence_restarts_after_the_windows_touched_by_a_loss(
    runs: list[EvidenceRun], eligible_epochs: list[int], missing: list[str]
) -> None:
    decision = with_loss(*runs)

    assert [r.epoch for r in decision.eligible_runs] == eligible_epochs
    assert [c.name for c in decision.conditions if not c.is_met] == missing


def test_loss_that_blocks_the_move_is_named() -> None:
    condition = next(c for c in with_loss(make_run(1, watermark=499)).conditions if c.name == "losses")

    assert condition.detail.startswith(
        "20 offsets of flights were lost; runs count from a cut of epoch 2 or later on whose watermark is 1970"
    )


@pytest.mark.parametrize(
    ("present", "missing"),
    [
        pytest.param(make_present_state(), [], id="all is well"),
        pytest.param(
            make_present_state(run=make_run(3, is_within_policy=False, outcome="DIVERGED")),
            ["compared now"],
            id="rows changed behind it",
        ),
        pytest.param(make_present_state(run=make_run(3, covers_all_windows=False)), ["compared now"], id="not whole"),
        pytest.param(make_present_state(violations=("N4: a row",)), ["verified now"], id="a check is violated"),
        pytest.param(make_present_state(check_error="no table"), ["verified now"], id="no check can be judged"),
        pytest.param(make_present_state(pages=("LogDataLost: gone",)), ["alerts now"], id="the stream stands"),
    ],
)
def test_present_problems_close_the_gate_with_their_reason(present: PresentState, missing: list[str]) -> None:
    evidence = GateEvidence(
        runs=(make_run(1), make_run(2), make_run(3)), replay=ROOMY, present=present, self_test=TESTED
    )
    decision = decide(Stage.LAMBDA, evidence, "advance", POLICY, NOW)

    assert (decision.allowed, [line.split(":")[0] for line in decision.missing]) == (not missing, missing)


@pytest.mark.parametrize(
    ("self_test", "reason"),
    [
        pytest.param(None, "none under this definition", id="none"),
        pytest.param(make_passed(NOW - 31 * DAY), "over 30 days ago", id="old"),
        pytest.param(make_passed(NOW + 31 * DAY), "in the future", id="from a clock that ran ahead"),
        pytest.param(make_passed(NOW + 2 * DAY), "in the future", id="ahead by less than it may be old"),
        pytest.param(replace(TESTED, detection_rate=rate(499, 500)), "499 of 500 planted rows", id="one was missed"),
        pytest.param(replace(TESTED, detection_rate=rate(0, 0)), "0 of 0 planted rows", id="nothing was planted"),
        pytest.param(replace(TESTED, false_alarm_rate=rate(1, 2_000)), "1 false alarm", id="a false alarm"),
        pytest.param(replace(TESTED, false_alarm_rate=rate(0, 999)), "in 999 windows", id="too few windows"),
        pytest.param(replace(TESTED, right_cause_rate=rate(494, 500)), "494 of 500 causes correct", id="wrong names"),
    ],
)
def test_a_missing_or_failed_self_test_closes_the_gate(self_test: SelfTest | None, reason: str) -> None:
    evidence = GateEvidence(runs=(make_run(1), make_run(2), make_run(3)), replay=ROOMY, self_test=self_test)

    decision = decide(Stage.LAMBDA, evidence, "advance", POLICY, NOW)

    assert decision.allowed is False
    assert [text for text in decision.missing if text.startswith("self-test: ") and reason in text] == [
        *decision.missing
    ]


@pytest.mark.parametrize(
    ("clean", "max_divergence", "is_met", "text"),
    [
        (3, None, True, f"0 of 3 blocks of windows diverged, so at most 66.42{THIN}% do"),
        (65, 0.05, False, f"the policy allows 5{THIN}%, which 1 more without a divergence would show"),
        (66, 0.05, True, f"the policy allows 5{THIN}%"),
        (0, 1.0, False, "0 of 0 blocks"),
        (1, 1.0, True, f"the policy allows 100{THIN}%"),
    ],
)
def test_divergence_rate_is_limited_by_the_policy(
    clean: int, max_divergence: float | None, is_met: bool, text: str
) -> None:
    evidence = GateEvidence(
        runs=tuple(make_run(n, first_sequence=n) for n in range(clean)), replay=ROOMY, self_test=TESTED
    )
    decision = decide(Stage.LAMBDA, evidence, "advance", replace(POLICY, max_divergence=max_divergence), NOW)

    (condition,) = (condition for condition in decision.conditions if condition.name == "divergence rate")
    assert condition.is_met is is_met
    assert text in condition.detail


NOTHING = GateEvidence()
ALL_BAD = GateEvidence(
    runs=(make_run(3, is_within_policy=False, outcome="DIVERGED", age=30 * DAY),),
    replay=Replayability(retention=HOUR, replay_time=HOUR, is_bounded=True),
    losses=(LOSS,),
    foreign=("somebody wrote",),
    self_test=replace(TESTED, detection_rate=rate(0, 5)),
    present=make_present_state(
        run=make_run(3, is_within_policy=False), violations=("N1: x",), pages=("LogDataLost: y",)
    ),
    settings_since=9,
    expectations=2,
)
STRICT = replace(POLICY, max_divergence=0.01, hazards=("restart", "replay", "peak", "schema_change", "partitions"))
GOOD = GateEvidence(
    runs=(make_run(1), make_run(2), make_run(3)), replay=ROOMY, self_test=TESTED, present=make_present_state()
)


@pytest.mark.parametrize("evidence", [NOTHING, ALL_BAD, GOOD], ids=["nothing", "all bad", "good"])
@pytest.mark.parametrize("policy", [POLICY, STRICT], ids=["plain", "strict"])
def test_every_condition_has_a_number_a_threshold_and_a_remedy(evidence: GateEvidence, policy: Policy) -> None:
    decision = decide(Stage.LAMBDA, evidence, "advance", policy, NOW)

    assert len({condition.name for condition in decision.conditions}) == len(decision.conditions)
    for condition in decision.conditions:
        assert (bool(condition.to_pass), bool(condition.detail)) == (not condition.is_met, True), condition
        if condition.number is not None and condition.threshold is not None and condition.name != "divergence rate":
            holds = (
                condition.number >= condition.threshold
                if condition.sense == "at least"
                else condition.number <= condition.threshold
            )
            assert holds == condition.is_met, condition


def test_decision_is_pure() -> None:
    first_decision, second_decision = (decide(Stage.LAMBDA, ALL_BAD, "advance", STRICT, NOW) for _ in range(2))

    assert first_decision == second_decision


@pytest.mark.parametrize(
    ("at", "earlier", "is_met"),
    [
        pytest.param(NOW + HOUR, (), True, id="of a host an hour ahead"),
        pytest.param(NOW + 2 * DAY, (NOW - DAY,), True, id="ahead, made after one a day ago"),
        pytest.param(NOW + 2 * DAY, (NOW - 31 * DAY,), False, id="ahead, made after one that is too old"),
        pytest.param(NOW + 3_650 * DAY, (NOW + 3_649 * DAY,), False, id="all are ahead"),
    ],
)
def test_a_self_test_dated_in_the_future_is_as_old_as_the_one_before_it(
    at: datetime, earlier: tuple[datetime, ...], is_met: bool
) -> None:
    evidence = GateEvidence(
        runs=(make_run(1), make_run(2), make_run(3)),
        replay=ROOMY,
        self_test=make_passed(at),
        earlier_self_tests=earlier,
    )

    assert decide(Stage.LAMBDA, evidence, "advance", POLICY, NOW).allowed is is_met
