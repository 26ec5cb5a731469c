"""Single conditions of a move: how fresh, under which settings, by which contract, and what the stream went through."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cutover.definition.model.policy import Policy, Stage
from cutover.reconcile.gate.decide import Condition, ContractCheck, EvidenceRun, GateEvidence, RecordedHazard, decide
from tests.support.history.gate_evidence import DAY, HOUR, NOW, POLICY, ROOMY, TESTED, make_run


def evaluate_conditions(policy: Policy = POLICY, stage: Stage = Stage.LAMBDA, **changes: Any) -> dict[str, Condition]:
    fields: dict[str, Any] = {
        "runs": (make_run(1), make_run(2), make_run(3)),
        "replay": ROOMY,
        "self_test": TESTED,
    } | changes
    decision = decide(stage, GateEvidence(**fields), "advance", policy, NOW)
    return {condition.name: condition for condition in decision.conditions}


@pytest.mark.parametrize(
    ("runs", "suffix"),
    [
        pytest.param((make_run(2), make_run(3)), "", id="all count"),
        pytest.param(
            (make_run(1), make_run(1), make_run(2)), " (1 more does not count: same or older cut", id="a cut twice"
        ),
        pytest.param((make_run(1), make_run(1), make_run(2), make_run(3)), "", id="enough"),
    ],
)
def test_ineligible_runs_are_reported_while_runs_are_missing(runs: tuple[EvidenceRun, ...], suffix: str) -> None:
    detail = evaluate_conditions(runs=runs)["runs"].detail

    assert detail.partition("with a newer cut")[2].startswith(suffix)
    assert ("not count" in detail) is bool(suffix)


@pytest.mark.parametrize(
    ("age", "is_met", "seconds"),
    [
        pytest.param(HOUR, True, 3_600, id="an hour old"),
        pytest.param(DAY, True, 86_400, id="just fresh"),
        pytest.param(DAY + HOUR, False, 90_000, id="too old"),
        pytest.param(-HOUR, True, 0, id="of a host an hour ahead"),
        pytest.param(-2 * HOUR, False, None, id="of a host two hours ahead: the time is unknown"),
        pytest.param(-2 * DAY, False, None, id="of a host two days ahead"),
        pytest.param(-3_650 * DAY, False, None, id="of a host ten years ahead"),
    ],
)
def test_newest_eligible_run_is_fresh(age: timedelta, is_met: bool, seconds: float | None) -> None:
    freshness = evaluate_conditions(runs=tuple(make_run(n, age=age) for n in (1, 2, 3)))["freshness"]

    assert (freshness.is_met, freshness.number, freshness.threshold) == (is_met, seconds, DAY.total_seconds())


@pytest.mark.parametrize("ahead", [2 * HOUR, 2 * DAY, 3_650 * DAY])
@pytest.mark.parametrize("age", [HOUR, 2 * DAY])
def test_a_run_of_the_future_is_as_old_as_the_newest_before_it(ahead: timedelta, age: timedelta) -> None:
    conditions = evaluate_conditions(runs=(*(make_run(n, age=age) for n in (1, 2, 3)), make_run(4, age=-ahead)))

    assert (conditions["runs"].number, conditions["freshness"].number) == (4, age.total_seconds())
    assert conditions["freshness"].is_met is (age == HOUR)


@pytest.mark.parametrize(
    ("age", "inputs", "seconds"),
    [
        pytest.param(-2 * DAY, (2 * DAY, 3 * HOUR), 3 * 3_600, id="ahead: after its newest input"),
        pytest.param(-2 * DAY, (-2 * DAY, 3 * HOUR), 3 * 3_600, id="ahead, as one of its inputs is"),
        pytest.param(-2 * DAY, (-2 * DAY, -3 * DAY), None, id="ahead, as all of its inputs are"),
        pytest.param(HOUR, (2 * DAY,), 3_600, id="its own clock is the better one"),
        pytest.param(HOUR, (HOUR / 4,), 900, id="a clock an hour behind that of its input"),
        pytest.param(2 * DAY, (HOUR,), 2 * 86_400, id="days behind its input: the older of both counts"),
        pytest.param(2 * DAY, (-3_650 * DAY,), 2 * 86_400, id="an input of the future"),
    ],
)
def test_a_run_is_no_newer_than_its_clock_and_its_inputs_show(
    age: timedelta, inputs: tuple[timedelta, ...], seconds: float | None
) -> None:
    evidence_run = make_run(1, age=age, inputs=tuple(NOW - input_ for input_ in inputs))

    assert evaluate_conditions(runs=(evidence_run,))["freshness"].number == seconds


@pytest.mark.parametrize("hours", [-1, 1])
def test_hosts_an_hour_apart_lose_no_run(hours: int) -> None:
    policy = replace(POLICY, fresh_within="30 minutes")
    runs = tuple(
        make_run(n, age=(4 - n) * HOUR / 4 - hours * HOUR * (n % 2), inputs=(NOW - (5 - n) * HOUR / 4,))
        for n in (1, 2, 3)
    )

    conditions = evaluate_conditions(policy, runs=runs)

    assert (conditions["runs"].number, conditions["freshness"].is_met) == (3, True)


@pytest.mark.parametrize(
    ("changed_at_epoch", "is_met", "number"), [(-1, True, 3), (1, True, 3), (2, False, 2), (9, False, 0)]
)
def test_runs_must_have_used_the_current_settings(changed_at_epoch: int, is_met: bool, number: int) -> None:
    unchanged = evaluate_conditions(settings_since=changed_at_epoch)["unchanged"]

    assert (unchanged.is_met, unchanged.number, unchanged.threshold) == (is_met, number, 3)


@pytest.mark.parametrize(
    ("contract", "expectations", "is_met", "number"),
    [
        pytest.param(None, 0, True, 0, id="no contract"),
        pytest.param(None, 2, False, 2, id="no batch run"),
        pytest.param(ContractCheck(run_id="b", evaluated=2, failed=()), 2, True, 0, id="holds"),
        pytest.param(ContractCheck(run_id="b", evaluated=1, failed=()), 2, False, 1, id="a new expectation"),
        pytest.param(ContractCheck(run_id="b", evaluated=2, failed=("rows",)), 2, False, 1, id="broken"),
    ],
)
def test_newest_batch_result_must_satisfy_the_contract(
    contract: ContractCheck | None, expectations: int, is_met: bool, number: int
) -> None:
    condition = evaluate_conditions(contract=contract, expectations=expectations)["contract"]

    assert (condition.is_met, condition.number) == (is_met, number)


@pytest.mark.parametrize("expectations", [0, 2])
def test_expectations_that_were_dropped_from_the_contract_are_named(expectations: int) -> None:
    check = ContractCheck(run_id="b7", evaluated=expectations, failed=(), dropped=3)

    condition = evaluate_conditions(contract=check, expectations=expectations)["contract"]

    assert condition.is_met
    assert "3 that batch run b7 evaluated are no longer in the contract" in condition.detail


LATE = RecordedHazard(kind="late_burst", epoch=2, at=NOW - DAY, text="90 late records in epoch 2")
WANTED = replace(POLICY, hazards=("late_burst",), hazards_within="2 days")


@pytest.mark.parametrize(
    ("hazards", "runs", "is_met", "to_pass"),
    [
        pytest.param((), (1, 2, 3), False, "an epoch with 10 late records", id="never seen"),
        pytest.param((LATE,), (1, 2, 3), True, "", id="seen and compared after it"),
        pytest.param((replace(LATE, epoch=4),), (1, 2, 3), False, "a run within policy", id="not compared since"),
        pytest.param((replace(LATE, at=NOW - 3 * DAY),), (1, 2, 3), False, "an epoch with", id="too long ago"),
        pytest.param((replace(LATE, at=NOW + 3 * DAY),), (1, 2, 3), False, "an epoch with", id="ahead of the clock"),
        pytest.param((replace(LATE, at=NOW + DAY),), (1, 2, 3), False, "an epoch with", id="ahead by less than asked"),
        pytest.param((replace(LATE, at=None),), (1, 2, 3), False, "an epoch with", id="at an unknown time"),
        pytest.param((replace(LATE, at=NOW + HOUR),), (1, 2, 3), True, "", id="of a host an hour ahead"),
        pytest.param((replace(LATE, kind="restart"),), (1, 2, 3), False, "an epoch with", id="another one"),
    ],
)
def test_a_hazard_is_covered_by_a_recorded_one_and_a_run_after_it(
    hazards: tuple[RecordedHazard, ...], runs: tuple[int, ...], is_met: bool, to_pass: str
) -> None:
    hazard = evaluate_conditions(WANTED, hazards=hazards, runs=tuple(map(make_run, runs)))["hazard late_burst"]

    assert (hazard.is_met, hazard.to_pass.startswith(to_pass), bool(hazard.to_pass)) == (is_met, True, not is_met)


def test_hazards_that_the_policy_does_not_require_are_listed() -> None:
    assert evaluate_conditions(hazards=(LATE,))["hazards"].detail == "the policy requires none; recorded: late_burst"


@pytest.mark.parametrize(
    ("changes", "policy", "is_met", "text"),
    [
        pytest.param({"audit_refusal": None}, POLICY, True, "a fault in 1 % of the rows", id="it can be sampled"),
        pytest.param(
            {"audit_refusal": "got sessions.\nHint: go without."}, POLICY, False, "got sessions", id="it cannot"
        ),
        pytest.param({}, POLICY, False, "not evaluated before SHADOW", id="not looked at"),
        pytest.param({}, replace(POLICY, audit=None), True, "final windows are not checked", id="not wanted by name"),
    ],
)
def test_kappa_requires_windows_that_can_be_sampled(
    changes: dict[str, Any], policy: Policy, is_met: bool, text: str
) -> None:
    audit = evaluate_conditions(policy, Stage.SHADOW, **changes)["audit"]

    assert (audit.is_met, text in audit.detail, bool(audit.to_pass)) == (is_met, True, not is_met)
    assert "got sessions" not in audit.detail or (audit.detail, audit.to_pass) == ("got sessions.", "go without")
    assert "audit" not in evaluate_conditions(policy, Stage.LAMBDA, **changes)


def test_commands_of_conditions_name_the_pipeline() -> None:
    evidence = GateEvidence(runs=(make_run(1),), replay=None, self_test=None)
    decision = decide(Stage.LAMBDA, evidence, "advance", POLICY, NOW).name_pipeline("flights")
    texts = [text for condition in decision.conditions for text in (condition.detail, condition.to_pass)]

    assert [text for text in texts if "P`" in text or " P " in text] == []
    assert any("`cutover stream flights --drain`" in text or "`cutover selftest flights`" in text for text in texts)
