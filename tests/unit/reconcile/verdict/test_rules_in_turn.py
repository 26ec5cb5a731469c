"""Assignment of rows to acceptance rules, and the outcome of each rule, in force or not."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cutover.definition.model.policy import AcceptanceRule, AcceptanceRules
from cutover.reconcile.result.finding import AcceptedRows, Difference, RuleState
from cutover.reconcile.verdict.decision import Acceptance, apply_rules, count_accepted_rows, describe_unfit, fits
from tests.unit.reconcile.verdict.test_acceptance_rules import AT, NOW, cell

LATER = "2026-01-01T01:00:00Z"
BROKEN = {"an-odd-one": "no TOML"}


def rule(**fields: Any) -> AcceptanceRule:
    defaults: dict[str, Any] = {"reason": "r", "owner": "o", "expires": NOW + timedelta(days=9), "max_rows": 9}
    return AcceptanceRule(**defaults | {"all": True} | fields)


def judge(
    rules: dict[str, AcceptanceRule], *cells: Difference, now: datetime | None = NOW, problems: dict[str, str] = BROKEN
) -> tuple[list[str | None], list[tuple[str, RuleState, int]]]:
    """Return the rule that accepts each cell, and each rule's state and rows."""
    acceptance = Acceptance(rules=AcceptanceRules(rules=rules, problems=problems), now=now)
    accepted, accepted_rows = apply_rules(acceptance, cells)
    return [row.accepted_by for row in accepted], [(row.rule, row.state, row.rows) for row in accepted_rows]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, True),
        ({"keys": ["a"]}, True),
        ({"keys": ["b"]}, False),
        ({"kinds": ["changed"]}, True),
        ({"kinds": ["missing"]}, False),
        ({"measures": ["revenue", "sales"]}, True),
        ({"measures": ["revenue"]}, False),  # the row differs in another one too
        ({"windows_from": datetime(2026, 1, 1, tzinfo=UTC)}, True),
        ({"windows_from": datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)}, False),
        ({"windows_to": datetime(2026, 1, 1, tzinfo=UTC)}, False),
    ],
)
def test_a_rule_is_about_a_row_if_all_that_it_names_fits_all_cells(fields: dict[str, Any], *, expected: bool) -> None:
    row = [cell("a", 1), cell("a", 2, measure="sales")]

    assert fits(rule(**fields), row) is expected


def test_a_row_of_two_kinds_fits_a_rule_that_names_both_alone() -> None:
    row = [cell("a", 1), cell("a", 2, kind="missing")]

    assert [fits(rule(kinds=kinds), row) for kinds in (["changed"], ["changed", "missing"])] == [False, True]


def test_a_row_without_a_window_is_no_rules() -> None:
    assert not fits(rule(), [cell("a", 1, window_start=None)])


def test_a_row_is_assigned_to_the_first_matching_rule_even_if_expired() -> None:
    rules = {"a": rule(keys=["a"], expires=NOW), "b": rule(), "c": rule()}

    by, outcomes = judge(rules, cell("a", 1), cell("b", 2), cell("b", 3, window_start=LATER))

    assert by == [None, "b", "b"]
    assert outcomes == [
        ("a", RuleState.EXPIRED, 1),
        ("an-odd-one", RuleState.UNREADABLE, 0),
        ("b", RuleState.IN_FORCE, 2),
        ("c", RuleState.IN_FORCE, 0),
    ]


@pytest.mark.parametrize(("max_rows", "state"), [(2, RuleState.IN_FORCE), (1, RuleState.EXCEEDED)])
def test_a_rule_accepts_rows_up_to_its_limit_once_for_all_cells(max_rows: int, state: RuleState) -> None:
    rows = (cell("a", 1), cell("a", 1, measure="sales"), cell("b", 1))

    by, outcomes = judge({"few": rule(max_rows=max_rows)}, *rows, problems={})

    assert outcomes == [("few", state, 2)]
    assert by == ["few" if state is RuleState.IN_FORCE else None] * 3


def test_rules_apply_only_to_rows_with_an_unexplained_part() -> None:
    by, outcomes = judge({"all": rule()}, cell("a", 1, cause="late"), cell("b", 1, cause="late + unexplained"))

    assert (by, outcomes[0]) == ([None, "all"], ("all", RuleState.IN_FORCE, 1))


@pytest.mark.parametrize(
    ("remaining", "now", "state"),
    [
        (timedelta(0), NOW, RuleState.EXPIRED),
        (timedelta(seconds=1), NOW, RuleState.IN_FORCE),
        (timedelta(days=9), None, RuleState.EXPIRED),  # the current time is unknown
    ],
)
def test_a_rule_is_in_force_until_it_expires(remaining: timedelta, now: datetime | None, state: RuleState) -> None:
    _, outcomes = judge({"brief": rule(expires=NOW + remaining)}, cell("a", 1), now=now, problems={})

    assert outcomes == [("brief", state, 1)]


def test_outcome_of_a_rule_has_all_its_fields_and_a_reason_if_it_accepts_nothing() -> None:
    in_force_rule, over = rule(expires=datetime(2026, 2, 1, 12, 30, tzinfo=UTC)), rule(max_rows=1, keys=["b", "c"])
    acceptance_rule = rule(keys=["z"], expires=datetime(2026, 1, 1, 9, 5, tzinfo=UTC))
    cells = [cell("b", 1), cell("c", 1), cell("a", 1)]
    rules = AcceptanceRules(
        rules={"gone": acceptance_rule, "many": over, "one": in_force_rule}, problems={"odd": "no TOML"}
    )

    _, outcomes = apply_rules(Acceptance(rules=rules, now=NOW), cells)

    owner_fields = {"reason": "r", "owner": "o"}
    assert outcomes[2:] == (
        AcceptedRows(rule="odd", state=RuleState.UNREADABLE, rows=0, why="no TOML"),
        AcceptedRows(
            rule="one",
            state=RuleState.IN_FORCE,
            rows=1,
            expires="2026-02-01T12:30:00Z",
            digest=in_force_rule.digest,
            **owner_fields,
        ),
    )
    assert describe_unfit(outcomes) == (
        "Rule `gone` accepts nothing: it has expired, 2026-01-01 09:05 UTC.",
        "Rule `many` accepts nothing: 2 rows fit it, and it allows 1.",
        "Rule `odd` accepts nothing: no TOML.",
    )
    assert count_accepted_rows(outcomes) == 1
    assert apply_rules(Acceptance(), [replace(cells[0], window_start=AT)]) == ((cells[0],), ())
