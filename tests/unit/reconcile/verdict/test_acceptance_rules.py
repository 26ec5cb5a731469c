"""Limits of acceptance rules: rows and volumes up to their limits, and nothing that cannot be measured."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from cutover.definition.model.policy import AcceptanceRule, AcceptanceRules
from cutover.reconcile.result.codec import Scalar
from cutover.reconcile.result.finding import AcceptedRows, Difference, RuleState, place_of
from cutover.reconcile.verdict.decision import Acceptance, apply_rules, count_accepted_rows

NOW = datetime(2026, 1, 2, tzinfo=UTC)
AT = "2026-01-01T00:00:00Z"


def cell(shop: str, difference: Scalar, **changes: Any) -> Difference:
    base = Difference(
        window_start=AT,
        key={"shop": shop},
        measure="revenue",
        kind="changed",
        streaming=None,
        batch=None,
        difference=difference,
        cause="unexplained",
    )
    return replace(base, **changes)


def judge(*cells: Difference, max_volume: float) -> AcceptedRows:
    """Evaluate a rule that allows a volume of `revenue`."""
    rule = AcceptanceRule(
        reason="r",
        owner="o",
        expires=datetime(2027, 1, 1, tzinfo=UTC),
        max_rows=9,
        max_volume={"revenue": max_volume},
        all=True,
    )
    accepted, (accepted_rows,) = apply_rules(
        Acceptance(rules=AcceptanceRules(rules={"backfill": rule}), now=NOW), cells
    )
    in_force = accepted_rows.state is RuleState.IN_FORCE
    assert {row.accepted_by for row in accepted} == ({"backfill"} if in_force else {None})
    return accepted_rows


def test_a_volume_is_the_sum_of_absolute_differences_up_to_the_limit() -> None:
    outcome = judge(cell("a", 4), cell("b", -3), max_volume=4 + 3)

    assert (outcome.state, outcome.rows, outcome.why) == (RuleState.IN_FORCE, 2, None)
    assert count_accepted_rows([outcome]) == 2


def test_a_volume_beyond_its_limit_is_reported_with_the_sum_and_accepts_nothing() -> None:
    outcome = judge(cell("a", 4), cell("b", -3), max_volume=4 + 3 - 0.5)

    assert (outcome.state, count_accepted_rows([outcome])) == (RuleState.EXCEEDED, 0)
    assert outcome.why == "`revenue` differs by 7 in all, and it allows 6.5"


def test_a_volume_counts_differences_of_its_own_measure_alone() -> None:
    outcome = judge(cell("a", 4), cell("a", 100, measure="sales"), max_volume=4)

    assert (outcome.state, outcome.rows) == (RuleState.IN_FORCE, 1)


@pytest.mark.parametrize("other", [None, "a text"])
def test_a_volume_of_which_one_difference_is_no_number_cannot_be_allowed(other: Scalar) -> None:
    outcome = judge(cell("a", 4), cell("b", other), max_volume=1_000_000)

    assert outcome.state is RuleState.EXCEEDED
    assert outcome.why == "`revenue` has differences that are not numbers, and it allows 1e+06"


def test_a_volume_that_is_not_a_number_is_within_no_limit() -> None:
    assert judge(cell("a", 1.0), cell("b", float("nan")), max_volume=1_000_000).state is RuleState.EXCEEDED


def test_cells_of_a_row_have_one_place_in_any_key_order() -> None:
    base_cell, other = cell("a", 1, key={"shop": "a", "desk": 1}), cell("a", 1, key={"desk": 1, "shop": "a"})

    assert place_of(base_cell) == place_of(other)


def test_rows_of_one_key_in_two_windows_are_at_two_places() -> None:
    assert place_of(cell("a", 1)) != place_of(cell("a", 1, window_start="2026-01-01T01:00:00Z"))


def test_rows_of_tables_without_windows_are_at_a_place_by_their_key() -> None:
    base_cell, other = cell("a", 1, window_start=None), cell("b", 1, window_start=None)

    assert place_of(base_cell) == place_of(cell("a", 2, window_start=None)) == ("", '{"shop": "a"}')
    assert place_of(base_cell) != place_of(other)
