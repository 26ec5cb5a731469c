"""Conditions on runs, rules and the contract as a person reads them, compared as complete values."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cutover.definition.model.policy import AcceptanceRule, AcceptanceRules, Policy
from cutover.reconcile.gate.criteria import describe_next_run
from cutover.reconcile.gate.decide import Condition, ContractCheck, RecordedHazard
from cutover.reconcile.result.text import THIN
from tests.support.history.gate_evidence import DAY, HOUR, LOSS, NOW, POLICY, make_run
from tests.support.history.self_tests import make_passed
from tests.unit.gate.test_criteria import evaluate_conditions

NEWER = (
    "`cutover batch P` and `cutover reconcile P`, after the stream has read new records: a drained log has no newer cut"
)
NO_CAUSE = (
    "batch and reconcile alone do not pass: find the cause of what `cutover differences P` lists, by"
    " docs/runbooks/DivergenceUnexplained.md"
)
AT_LEAST: dict[str, Any] = {"sense": "at least"}


def condition(
    name: str, detail: str, number: float | None, threshold: float | None, *, need: str = "", **fields: Any
) -> Condition:
    """Build a condition that is met if `need` is empty."""
    return Condition(
        name=name, is_met=not need, detail=detail, number=number, threshold=threshold, to_pass=need, **fields
    )


def test_one_missing_run_is_requested() -> None:
    reasons = "same or older cut, a range, over 7 days, dated in the future, before a break"
    detail = f"2 of 3 consecutive sealed runs within policy, each with a newer cut (1 more does not count: {reasons})"

    assert evaluate_conditions(runs=(make_run(1), make_run(1), make_run(2)))["runs"] == condition(
        "runs", detail, 2, 3, **AT_LEAST, unit="runs", need=f"1 more in a row: {NEWER}"
    )


def test_newest_run_is_described_by_its_outcome_and_time() -> None:
    unit, need = "runs beyond policy", f"a whole run within policy: {NEWER}"
    bad = make_run(3, is_within_policy=False, outcome="DIVERGED")

    diverged = evaluate_conditions(runs=(make_run(1), make_run(2), bad))["newest run"]
    assert diverged == condition(
        "newest run",
        "DIVERGED at epoch 3, 2026-11-21 11:00 UTC",
        1,
        0,
        unit=unit,
        need=f"a whole run within policy: {NO_CAUSE}",
    )
    assert evaluate_conditions()["newest run"] == condition(
        "newest run", "EXPLAINED at epoch 3, 2026-11-21 11:00 UTC", 0, 0, unit=unit
    )
    assert evaluate_conditions(runs=())["newest run"] == condition(
        "newest run", "no reconciliation under this definition yet", None, 0, unit=unit, need=need
    )


def test_a_late_share_beyond_policy_needs_more_than_another_run() -> None:
    beyond = make_run(3, is_within_policy=False, outcome="EXPLAINED_BEYOND_POLICY", rows_by_cause=(("late", 7),))

    conditions = evaluate_conditions(runs=(make_run(1), make_run(2), beyond))

    for name in ("runs", "newest run"):
        assert "`cutover advise P`" in conditions[name].to_pass
        assert "policy.max_late_share" in conditions[name].to_pass
        assert "max_dimension_rows" not in conditions[name].to_pass
        assert "alone do not pass" in conditions[name].to_pass


@pytest.mark.parametrize(
    ("outcome", "causes", "hint", "absent_hint"),
    [
        ("EXPLAINED_BEYOND_POLICY", (("dimension", 3),), "`policy.max_dimension_rows`", "`policy.max_late_share`"),
        ("DIVERGED", (("unexplained", 3),), "docs/runbooks/DivergenceUnexplained.md", "a drained log"),
        ("NOT_COMPARABLE", (), "docs/runbooks/NotComparable.md", "a drained log"),
    ],
)
def test_remedy_matches_the_outcome_of_the_newest_run(
    outcome: str, causes: tuple[tuple[str, int], ...], hint: str, absent_hint: str
) -> None:
    """Another run over the same windows would only reproduce the result, so the hint must name the actual remedy."""
    conditions = evaluate_conditions(
        runs=(make_run(1), make_run(2, is_within_policy=False, outcome=outcome, rows_by_cause=causes))
    )

    for name in ("runs", "newest run"):
        assert hint in conditions[name].to_pass
        assert absent_hint not in conditions[name].to_pass


@pytest.mark.parametrize("outcome", ["EXPLAINED_BEYOND_POLICY", "ACCEPTED_BEYOND_POLICY", "DIVERGED", "NOT_COMPARABLE"])
def test_every_condition_that_needs_another_run_names_the_same_remedy(outcome: str) -> None:
    runs = (make_run(1), make_run(2, is_within_policy=False, outcome=outcome))
    burst = RecordedHazard(kind="late_burst", epoch=2, at=NOW - HOUR, text="90 late records in epoch 2")
    policy = Policy(runs=3, max_divergence=0.01, hazards=("late_burst",))

    conditions = evaluate_conditions(policy, runs=runs, hazards=(burst,), settings_since=2)
    unmet = {name for name, condition in conditions.items() if not condition.is_met}
    remedy = describe_next_run(runs[-1])

    assert unmet >= {"runs", "newest run", "freshness", "divergence rate", "hazard late_burst"}
    for name in unmet:
        assert remedy in conditions[name].to_pass
        assert NEWER not in conditions[name].to_pass


def test_a_run_without_a_cut_is_at_no_epoch() -> None:
    refused = make_run(-1, is_within_policy=False, outcome="NOT_COMPARABLE", windows=0)

    assert evaluate_conditions(runs=(refused,))["newest run"].detail.startswith("NOT_COMPARABLE at no epoch, ")


def test_a_bound_of_divergence_is_never_shown_as_none() -> None:
    agreed = tuple(make_run(n, windows=10**6, newest_window=n) for n in range(1, 4))

    assert f"at most 0{THIN}%" not in evaluate_conditions(runs=agreed)["divergence rate"].detail


def test_freshness_is_the_age_of_the_newest_run_that_counts() -> None:
    runs = (make_run(1, age=3 * HOUR), make_run(2, age=2 * HOUR), make_run(3, age=HOUR))
    allows = f"the policy allows 1{THIN}d"

    assert evaluate_conditions(runs=runs)["freshness"] == condition(
        "freshness", f"the newest run that counts is 1{THIN}h old; {allows}", 3_600.0, 86_400.0, unit="seconds"
    )
    assert evaluate_conditions(runs=())["freshness"] == condition(
        "freshness", f"no run counts; {allows}", None, 86_400.0, unit="seconds", need=f"a run now: {NEWER}"
    )


def test_a_run_as_old_as_the_policy_allows_is_fresh() -> None:
    assert evaluate_conditions(runs=tuple(make_run(n, age=DAY) for n in (1, 2, 3)))["freshness"].is_met


@pytest.mark.parametrize(
    ("runs", "changed_at_epoch", "unchanged_runs", "required", "fields"),
    [
        pytest.param(4, -1, 4, 3, {}, id="nothing changed"),
        pytest.param(4, 1, 4, 3, {}, id="changed before the first run"),
        pytest.param(4, 2, 3, 3, {}, id="the required number of runs follows it"),
        pytest.param(
            4, 3, 2, 3, {"need": f"1 more run under these settings: {NEWER}"}, id="one run too few follows it"
        ),
        pytest.param(2, -1, 2, 2, {}, id="never requires more runs than are eligible"),
    ],
)
def test_runs_under_the_current_settings_are_counted(
    runs: int, changed_at_epoch: int, unchanged_runs: int, required: int, fields: dict[str, str]
) -> None:
    summary = f"{unchanged_runs} of {runs} eligible runs under the current settings"
    detail = summary if changed_at_epoch < 0 else f"{summary}, which changed with epoch {changed_at_epoch}"

    assert evaluate_conditions(runs=tuple(map(make_run, range(1, runs + 1))), settings_since=changed_at_epoch)[
        "unchanged"
    ] == condition("unchanged", detail, unchanged_runs, required, **AT_LEAST, unit="runs", **fields)


@pytest.mark.parametrize(
    ("blocks", "max_divergence", "policy_text", "need"),
    [
        pytest.param(66, 0.05, f"allows 5{THIN}%", None, id="refuted"),
        pytest.param(65, 0.05, f"allows 5{THIN}%", "1 more without a divergence would show", id="one block short"),
        pytest.param(
            3, 1e-8, f"allows 0.000001{THIN}%", "over a million more without a divergence would show", id="too many"
        ),
        pytest.param(3, None, "sets no limit", None, id="not asked for"),
    ],
)
def test_divergence_rate_names_the_number_of_missing_blocks(
    blocks: int, max_divergence: float | None, policy_text: str, need: str | None
) -> None:
    runs = tuple(make_run(n, first_sequence=n) for n in range(blocks))

    divergence_rate = evaluate_conditions(replace(POLICY, max_divergence=max_divergence), runs=runs)["divergence rate"]

    assert (divergence_rate.is_met, divergence_rate.threshold, divergence_rate.unit) == (
        need is None,
        max_divergence,
        "of the blocks",
    )
    assert divergence_rate.detail.endswith(
        f"; the policy {policy_text}" if need is None else f"; the policy {policy_text}, which {need}"
    )
    assert divergence_rate.to_pass == ("" if need is None else f"{need} it: {NEWER}")


def test_losses_name_the_eligible_runs_after_the_last_one() -> None:
    losses = (LOSS, replace(LOSS, closed_at=900_000_000, text="another"), replace(LOSS, epoch=0, closed_at=3))
    need = "a cut of epoch 2 or later on whose watermark is 1970-01-01 00:15 UTC or later"

    assert evaluate_conditions(losses=losses, runs=(make_run(2, watermark=5),))["losses"] == condition(
        "losses", f"another; runs count from {need}", 2, 0, unit="losses", need=f"runs from {need}"
    )
    assert evaluate_conditions(losses=(LOSS,), runs=(make_run(2, watermark=500),))["losses"] == condition(
        "losses", "1 accepted, all behind the newest run", 0, 0, unit="losses"
    )
    assert evaluate_conditions()["losses"] == condition("losses", "none accepted", 0, 0, unit="losses")


def test_every_foreign_write_is_reported() -> None:
    need = "undo them or recompute the windows: docs/runbooks/ForeignWrite.md; if a file cannot be read: "
    need += "docs/runbooks/TableUnreadable.md"

    assert evaluate_conditions(foreign=("A wrote.", "B wrote."))["tables"] == condition(
        "tables", "A wrote. B wrote.", 2, 0, unit="foreign writes", need=need
    )
    assert evaluate_conditions()["tables"] == condition(
        "tables", "no other writer changed a row", 0, 0, unit="foreign writes"
    )


RULE = AcceptanceRule.model_validate(
    {"reason": "moved", "owner": "ada", "expires": NOW + DAY, "max_rows": 5, "all": True}
)
OLD = RULE.model_copy(update={"expires": NOW - DAY})
NEEDED = make_run(3, accepted_by=(("moved", RULE.digest),))
GONE = "rule `moved`, which runs that count need, was changed or removed"
EXPIRED = "rule `old` has expired, 2026-11-20 12:00 UTC: renew or remove it"


@pytest.mark.parametrize(
    ("rules", "last_run", "number", "detail"),
    [
        pytest.param(AcceptanceRules(), make_run(3), 0, "none", id="no rules"),
        pytest.param(AcceptanceRules(rules={"moved": RULE}), NEEDED, 0, "1 in force", id="as runs need it"),
        pytest.param(AcceptanceRules(), NEEDED, 1, GONE, id="taken away"),
        pytest.param(AcceptanceRules(rules={"moved": OLD.model_copy(update={"expires": NOW + HOUR})}), NEEDED, 1, GONE),
        pytest.param(AcceptanceRules(rules={"old": OLD}), make_run(3), 1, EXPIRED, id="expired"),
        pytest.param(
            AcceptanceRules(rules={"moved": RULE}),
            make_run(3, exceeded=(("moved", "6 rows, of 5"),)),
            1,
            "rule `moved` is exceeded: 6 rows, of 5",
            id="exceeded",
        ),
        pytest.param(
            AcceptanceRules(rules={"old": OLD}, problems={"a": "a.toml: no TOML", "b": "b.toml: no TOML"}),
            NEEDED,
            4,
            f"a.toml: no TOML; b.toml: no TOML; {EXPIRED}",
            id="the first three are named",
        ),
    ],
)
def test_acceptance_rules_of_eligible_runs_must_still_be_in_force(
    rules: AcceptanceRules, last_run: Any, number: int, detail: str
) -> None:
    fields = {"need": f"correct the rules, then compare again: {NEWER}"} if number else {}

    assert evaluate_conditions(rules=rules, runs=(make_run(1), make_run(2), last_run))["accepted"] == condition(
        "accepted", detail, number, 0, unit="rules", **fields
    )


def test_contract_names_three_of_the_expectations_that_do_not_hold() -> None:
    contract_check = ContractCheck(run_id="b7", evaluated=4, failed=("rows", "no null"))

    assert evaluate_conditions(contract=contract_check, expectations=6)["contract"] == condition(
        "contract",
        "2 of 6 hold in the newest batch run b7: rows; no null; not evaluated",
        4,
        0,
        unit="expectations",
        need="a batch run that holds them: `cutover batch P`",
    )
    assert evaluate_conditions(contract=replace(contract_check, evaluated=6, failed=()), expectations=6)[
        "contract"
    ] == condition("contract", "6 of 6 hold in the newest batch run b7", 0, 0, unit="expectations")


def test_a_self_test_is_valid_for_thirty_days() -> None:
    detail = "500 of 500 planted rows detected, 0 false alarms in 2,000 windows, 500 of 500 causes correct"
    need = "one that passes, within 30 days: `cutover selftest P`"
    late = timedelta(seconds=1)

    assert evaluate_conditions(self_test=make_passed(NOW - 30 * DAY))["self-test"] == condition(
        "self-test", detail, 1.0, 1, **AT_LEAST, unit="detected"
    )
    assert evaluate_conditions(self_test=make_passed(NOW - 30 * DAY - late))["self-test"] == condition(
        "self-test", f"{detail}; over 30 days ago", 1.0, 1, **AT_LEAST, unit="detected", need=need
    )


def test_a_missing_self_test_is_requested() -> None:
    detail, need = "none under this definition: `cutover selftest P` makes one", "`cutover selftest P`"

    assert evaluate_conditions(self_test=None)["self-test"] == condition(
        "self-test", detail, None, 1, **AT_LEAST, unit="detected", need=need
    )
