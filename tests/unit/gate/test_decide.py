"""Moves as tables: stage, evidence, and what the gate says."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cutover.definition.model.pipeline import Policy
from cutover.lake.control.stages import Stage
from cutover.reconcile.gate.decide import (
    EXPIRES_AFTER,
    EvidenceRun,
    GateDecision,
    GateEvidence,
    LostWindows,
    PresentState,
    Replayability,
    decide,
    list_blocks,
    select_consecutive_runs,
)
from cutover.reconcile.result.rates import rate
from cutover.reconcile.selftest.outcome import SelfTest
from tests.support.history.self_tests import passed

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
POLICY = Policy(runs=3)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
ROOMY = Replayability(retention=None, replay_time=HOUR)
TESTED = passed(NOW - HOUR)


def run(epoch: int, *, age: timedelta = HOUR, **changes: Any) -> EvidenceRun:
    fields: dict[str, Any] = {
        "outcome": "EXPLAINED",
        "is_within_policy": True,
        "windows": 9,
        "newest_window": epoch,
    } | changes
    return EvidenceRun(run_id=f"r{epoch}", at=NOW - age, epoch=epoch, **fields)


def advance(*runs: EvidenceRun, stage: Stage = Stage.LAMBDA, replay: Replayability | None = ROOMY) -> GateDecision:
    evidence = GateEvidence(runs=runs, replay=replay, self_test=TESTED, audit_refusal=None)
    return decide(stage, evidence, "advance", POLICY, NOW)


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        pytest.param([], [], id="none"),
        pytest.param([run(1), run(2), run(3)], [1, 2, 3], id="three cuts"),
        pytest.param([run(1), run(1), run(2)], [1, 2], id="same cut counts once"),
        pytest.param([run(2), run(1), run(3)], [2, 3], id="older cut is no news"),
        pytest.param(
            [run(2, first_sequence=1), run(1, first_sequence=0)],
            [1, 2],
            id="an older cut compared again takes nothing away",
        ),
        pytest.param(
            [run(2, first_sequence=0), run(1, first_sequence=1)], [2], id="an older cut compared late is no evidence"
        ),
        pytest.param(
            [run(5, is_within_policy=False), run(3), run(4)], [], id="older cuts after a bad run at a newer one"
        ),
        pytest.param([run(5, is_within_policy=False), run(3), run(6)], [6], id="a newer cut after it counts"),
        pytest.param([run(4), run(5, is_within_policy=False), run(5)], [5], id="the same cut compared again counts"),
        pytest.param([run(5), run(5, is_within_policy=False)], [], id="a contradiction at the same cut breaks"),
        pytest.param([run(4), run(5), run(3, is_within_policy=False)], [4, 5], id="a bad run at an older cut"),
        pytest.param(
            [run(5), run(5, is_within_policy=False, covers_all_windows=False), run(5, covers_all_windows=False)],
            [],
            id="a range heals nothing",
        ),
        pytest.param([run(1), run(2, is_within_policy=False, outcome="DIVERGED"), run(3)], [3], id="divergence breaks"),
        pytest.param(
            [run(1), run(1, is_within_policy=False, outcome="NOT_COMPARABLE"), run(3)], [3], id="not comparable breaks"
        ),
        pytest.param([run(1), run(2, covers_all_windows=False), run(3)], [1, 3], id="a range is no evidence"),
        pytest.param(
            [run(1), run(2, covers_all_windows=False, is_within_policy=False, outcome="DIVERGED"), run(3)],
            [3],
            id="divergence in a range breaks",
        ),
        pytest.param(
            [run(1, end=70), run(2, end=70), run(3, end=71)], [1, 3], id="an epoch without records is no newer cut"
        ),
        pytest.param([run(1, age=EXPIRES_AFTER + HOUR), run(2), run(3)], [2, 3], id="expired"),
        pytest.param([run(1, age=EXPIRES_AFTER), run(2), run(3)], [1, 2, 3], id="just not expired"),
        pytest.param([run(1, age=-EXPIRES_AFTER - HOUR), run(2), run(3)], [2, 3], id="of a clock that ran ahead"),
        pytest.param([run(1, age=-2 * DAY), run(2), run(3)], [2, 3], id="ahead by less than it takes to expire"),
        pytest.param([run(1), run(2), run(3, age=-2 * DAY)], [1, 2, 3], id="ahead, made after one that counts"),
        pytest.param(
            [run(1, age=EXPIRES_AFTER + HOUR), run(2, age=-2 * DAY)], [], id="ahead, made after one that expired"
        ),
        pytest.param([run(1, age=-HOUR), run(2, age=HOUR), run(3, age=-HOUR)], [1, 2, 3], id="hosts two hours apart"),
        pytest.param([run(1, age=-2 * DAY, inputs=(NOW - DAY,)), run(2)], [1, 2], id="ahead, made after its inputs"),
        pytest.param(
            [run(1, age=-2 * DAY, inputs=(NOW - EXPIRES_AFTER - HOUR,)), run(2)], [2], id="ahead, its inputs expired"
        ),
    ],
)
def test_row_of_runs_that_count(runs: list[EvidenceRun], expected: list[int]) -> None:
    assert [r.epoch for r in select_consecutive_runs(tuple(runs), NOW)] == expected


@pytest.mark.parametrize(
    ("stage", "target"), [(Stage.LAMBDA, Stage.SHADOW), (Stage.SHADOW, Stage.KAPPA), (Stage.KAPPA, None)]
)
def test_enough_evidence_advances_one_stage(stage: Stage, target: Stage | None) -> None:
    decision = advance(run(1), run(2), run(3), stage=stage)

    assert (decision.target, decision.allowed) == (target, target is not None)


@pytest.mark.parametrize(
    ("decision", "missing"),
    [
        pytest.param(advance(run(1), run(2)), ["runs"], id="too few"),
        pytest.param(advance(), ["runs", "newest run", "freshness"], id="no run"),
        pytest.param(
            advance(run(1), run(2), run(3), run(4, is_within_policy=False, outcome="DIVERGED")),
            ["runs", "newest run", "freshness"],
            id="broken",
        ),
        pytest.param(advance(run(1), run(2), run(3), replay=None), ["replay"], id="log silent"),
        pytest.param(
            advance(run(1), run(2), run(3), replay=Replayability(retention=HOUR, replay_time=HOUR)),
            ["replay"],
            id="kept too short",
        ),
        pytest.param(
            advance(run(1), run(2), run(3), replay=Replayability(retention=DAY, replay_time=None)),
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
    decision = advance(run(1), run(2), run(3), replay=replay)

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


LOSS = LostWindows(epoch=2, closed_at=500, text="20 offsets of flights were lost")


def with_loss(*runs: EvidenceRun) -> GateDecision:
    return decide(
        Stage.LAMBDA, GateEvidence(runs=runs, replay=ROOMY, losses=(LOSS,), self_test=TESTED), "advance", POLICY, NOW
    )


@pytest.mark.parametrize(
    ("runs", "eligible_epochs", "missing"),
    [
        pytest.param([run(n, watermark=n * 250) for n in (2, 3, 4)], [2, 3, 4], [], id="all behind the loss"),
        pytest.param([run(n, watermark=n * 249) for n in (2, 3, 4)], [3, 4], ["runs"], id="first leaves some open"),
        pytest.param(
            [run(n, watermark=499) for n in (1, 2, 3)],
            [],
            ["runs", "freshness", "losses"],
            id="touched windows are inside",
        ),
        pytest.param([run(n) for n in (1, 2, 3)], [], ["runs", "freshness", "losses"], id="no watermark is no proof"),
        pytest.param(
            [run(1, watermark=900, age=-HOUR), *(run(n, watermark=900, age=HOUR * n) for n in (2, 3))],
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
    condition = next(c for c in with_loss(run(1, watermark=499)).conditions if c.name == "losses")

    assert condition.detail.startswith(
        "20 offsets of flights were lost; runs count from a cut of epoch 2 or later on whose watermark is 1970"
    )


@pytest.mark.parametrize(
    ("runs", "is_met"),
    [
        pytest.param([run(5, is_within_policy=False), run(3)], False, id="an older cut"),
        pytest.param([run(5, is_within_policy=False), run(5, covers_all_windows=False)], False, id="a range"),
        pytest.param([run(5, is_within_policy=False), run(5)], True, id="the same cut, whole"),
        pytest.param([run(5), run(3, is_within_policy=False)], True, id="an older cut that is bad"),
        pytest.param(
            [run(5), run(5, covers_all_windows=False, is_within_policy=False)], False, id="a range that is bad"
        ),
    ],
)
def test_newest_run_is_the_one_at_the_latest_cut(runs: list[EvidenceRun], is_met: bool) -> None:
    condition = next(c for c in advance(*runs).conditions if c.name == "newest run")

    assert condition.is_met is is_met


def now(**changes: Any) -> PresentState:
    fields: dict[str, Any] = {"run": run(3), "reason": "Agree."} | changes
    return PresentState(**fields)


@pytest.mark.parametrize(
    ("present", "missing"),
    [
        pytest.param(now(), [], id="all is well"),
        pytest.param(
            now(run=run(3, is_within_policy=False, outcome="DIVERGED")), ["compared now"], id="rows changed behind it"
        ),
        pytest.param(now(run=run(3, covers_all_windows=False)), ["compared now"], id="not whole"),
        pytest.param(now(violations=("N4: a row",)), ["verified now"], id="a check is violated"),
        pytest.param(now(check_error="no table"), ["verified now"], id="no check can be judged"),
        pytest.param(now(pages=("LogDataLost: gone",)), ["alerts now"], id="the stream stands"),
    ],
)
def test_present_problems_close_the_gate_with_their_reason(present: PresentState, missing: list[str]) -> None:
    evidence = GateEvidence(runs=(run(1), run(2), run(3)), replay=ROOMY, present=present, self_test=TESTED)
    decision = decide(Stage.LAMBDA, evidence, "advance", POLICY, NOW)

    assert (decision.allowed, [line.split(":")[0] for line in decision.missing]) == (not missing, missing)


@pytest.mark.parametrize(
    ("self_test", "reason"),
    [
        pytest.param(None, "none under this definition", id="none"),
        pytest.param(passed(NOW - 31 * DAY), "over 30 days ago", id="old"),
        pytest.param(passed(NOW + 31 * DAY), "in the future", id="from a clock that ran ahead"),
        pytest.param(passed(NOW + 2 * DAY), "in the future", id="ahead by less than it may be old"),
        pytest.param(replace(TESTED, detection_rate=rate(499, 500)), "499 of 500 planted rows", id="one was missed"),
        pytest.param(replace(TESTED, detection_rate=rate(0, 0)), "0 of 0 planted rows", id="nothing was planted"),
        pytest.param(replace(TESTED, false_alarm_rate=rate(1, 2_000)), "1 false alarms", id="a false alarm"),
        pytest.param(replace(TESTED, false_alarm_rate=rate(0, 999)), "in 999 windows", id="too few windows"),
        pytest.param(replace(TESTED, right_cause_rate=rate(494, 500)), "494 of 500 causes correct", id="wrong names"),
    ],
)
def test_a_missing_or_failed_self_test_closes_the_gate(self_test: SelfTest | None, reason: str) -> None:
    evidence = GateEvidence(runs=(run(1), run(2), run(3)), replay=ROOMY, self_test=self_test)

    decision = decide(Stage.LAMBDA, evidence, "advance", POLICY, NOW)

    assert decision.allowed is False
    assert [text for text in decision.missing if text.startswith("self-test: ") and reason in text] == [
        *decision.missing
    ]


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        pytest.param([], (), id="none"),
        pytest.param([run(1, first_sequence=0), run(2, first_sequence=1)], (False, False), id="two cuts"),
        pytest.param(
            [run(2, first_sequence=0), run(2, first_sequence=1), run(1, first_sequence=2)],
            (False,),
            id="a cut counts once",
        ),
        pytest.param(
            [
                run(1, first_sequence=0, outcome="DIVERGED", is_within_policy=False),
                run(1, first_sequence=1),
                run(2, first_sequence=2),
            ],
            (True, False),
            id="a block that was repaired later counts as diverged",
        ),
        pytest.param(
            [
                run(1, first_sequence=0),
                run(1, first_sequence=1, covers_all_windows=False, outcome="DIVERGED", is_within_policy=False),
            ],
            (True,),
            id="a range speaks against the newest block",
        ),
        pytest.param(
            [
                run(1, first_sequence=0),
                run(2, first_sequence=1, outcome="NOT_COMPARABLE", is_within_policy=False),
                run(3, first_sequence=2),
            ],
            (False, False),
            id="windows that were not comparable are those of the next block",
        ),
        pytest.param(
            [run(n, first_sequence=n, newest_window=5) for n in range(70)],
            (False,),
            id="newer cuts without a newer window",
        ),
        pytest.param(
            [
                run(1, first_sequence=1),
                run(2, first_sequence=2, newest_window=1, outcome="DIVERGED", is_within_policy=False),
                run(3, first_sequence=3),
            ],
            (True, False),
            id="a cut without a newer window speaks against the newest block",
        ),
        pytest.param(
            [run(1, first_sequence=1, newest_window=None), run(2, first_sequence=2, newest_window=None)],
            (False,),
            id="windows unknown",
        ),
        pytest.param([run(1, outcome="ACCEPTED")], (True,), id="an accepted difference is one"),
        pytest.param(
            [run(1, outcome="EXPLAINED_BEYOND_POLICY", is_within_policy=False)],
            (False,),
            id="too many late ones are explained",
        ),
        pytest.param(
            [run(1, covers_all_windows=False, outcome="DIVERGED", is_within_policy=False)],
            (True,),
            id="a range that nothing came before",
        ),
    ],
)
def test_runs_are_grouped_into_blocks_of_windows(runs: list[EvidenceRun], expected: tuple[bool, ...]) -> None:
    assert list_blocks(tuple(runs)) == expected


@pytest.mark.parametrize(
    ("clean", "max_divergence", "is_met", "text"),
    [
        (3, None, True, "0 of 3 blocks of windows diverged, so at most 66.42% do (95%, however often it is evaluated)"),
        (65, 0.05, False, "the policy allows 5%, which 1 more without a divergence would show"),
        (66, 0.05, True, "the policy allows 5%"),
        (0, 1.0, False, "0 of 0 blocks"),
        (1, 1.0, True, "the policy allows 100%"),
    ],
)
def test_divergence_rate_is_limited_by_the_policy(
    clean: int, max_divergence: float | None, is_met: bool, text: str
) -> None:
    evidence = GateEvidence(runs=tuple(run(n, first_sequence=n) for n in range(clean)), replay=ROOMY, self_test=TESTED)
    decision = decide(Stage.LAMBDA, evidence, "advance", replace(POLICY, max_divergence=max_divergence), NOW)

    (condition,) = (condition for condition in decision.conditions if condition.name == "divergence rate")
    assert condition.is_met is is_met
    assert text in condition.detail


NOTHING = GateEvidence()
ALL_BAD = GateEvidence(
    runs=(run(3, is_within_policy=False, outcome="DIVERGED", age=30 * DAY),),
    replay=Replayability(retention=HOUR, replay_time=HOUR, is_bounded=True),
    losses=(LOSS,),
    foreign=("somebody wrote",),
    self_test=replace(TESTED, detection_rate=rate(0, 5)),
    present=now(run=run(3, is_within_policy=False), violations=("N1: x",), pages=("LogDataLost: y",)),
    settings_since=9,
    expectations=2,
)
STRICT = replace(POLICY, max_divergence=0.01, hazards=("restart", "replay", "peak", "schema_change", "partitions"))
GOOD = GateEvidence(runs=(run(1), run(2), run(3)), replay=ROOMY, self_test=TESTED, present=now())


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
        runs=(run(1), run(2), run(3)), replay=ROOMY, self_test=passed(at), earlier_self_tests=earlier
    )

    assert decide(Stage.LAMBDA, evidence, "advance", POLICY, NOW).allowed is is_met


@pytest.mark.parametrize(
    ("runs", "expires"),
    [
        pytest.param([], None, id="none counts"),
        pytest.param([run(1, age=DAY), run(2)], NOW - DAY + EXPIRES_AFTER, id="the oldest"),
        pytest.param([run(1, age=DAY), run(2, age=-9 * DAY)], NOW - DAY + EXPIRES_AFTER, id="not one of the future"),
    ],
)
def test_evidence_holds_until_its_oldest_run_expires(runs: list[EvidenceRun], expires: datetime | None) -> None:
    assert advance(*runs).expires == expires
