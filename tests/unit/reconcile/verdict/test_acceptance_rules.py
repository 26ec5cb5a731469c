"""Limits of acceptance rules: rows and volumes up to their limits, and nothing that cannot be measured."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from cutover.definition.loading.acceptance_files import AcceptanceRules
from cutover.definition.model.acceptance import AcceptanceRule
from cutover.reconcile.result.codec import Scalar
from cutover.reconcile.result.finding import AcceptedRows, Difference, RuleState
from cutover.reconcile.verdict.acceptance import Acceptance, accept, count_rows, place_of

NOW = datetime(2026, 1, 2, tzinfo=UTC)
AT = "2026-01-01T00:00:00Z"


def cell(shop: str, difference: Scalar, **changes: Any) -> Difference:
    made = Difference(
        window_start=AT,
        key={"shop": shop},
        measure="revenue",
        kind="changed",
        streaming=None,
        batch=None,
        difference=difference,
        cause="unexplained",
    )
    return replace(made, **changes)


def judge(*cells: Difference, most: float) -> AcceptedRows:
    """Return what a rule that allows so much of `revenue` came to."""
    rule = AcceptanceRule(
        reason="r",
        owner="o",
        expires=datetime(2027, 1, 1, tzinfo=UTC),
        max_rows=9,
        max_volume={"revenue": most},
        all=True,
    )
    accepted, (found,) = accept(Acceptance(rules=AcceptanceRules(rules={"backfill": rule}), now=NOW), cells)
    in_force = found.state is RuleState.IN_FORCE
    assert {one.accepted_by for one in accepted} == ({"backfill"} if in_force else {None})
    return found


def test_a_volume_is_the_sum_over_rows_whatever_their_signs_up_to_the_limit_itself() -> None:
    found = judge(cell("a", 4), cell("b", -3), most=4 + 3)

    assert (found.state, found.rows, found.why) == (RuleState.IN_FORCE, 2, None)
    assert count_rows([found]) == 2


def test_a_volume_beyond_its_limit_is_said_with_the_sum_and_accepts_nothing() -> None:
    found = judge(cell("a", 4), cell("b", -3), most=4 + 3 - 0.5)

    assert (found.state, count_rows([found])) == (RuleState.EXCEEDED, 0)
    assert found.why == "`revenue` differs by 7 in all, and it allows 6.5"


def test_a_volume_counts_differences_of_its_own_measure_alone() -> None:
    found = judge(cell("a", 4), cell("a", 100, measure="sales"), most=4)

    assert (found.state, found.rows) == (RuleState.IN_FORCE, 1)


@pytest.mark.parametrize("other", [None, "a text"])
def test_a_volume_of_which_one_difference_is_no_number_cannot_be_allowed(other: Scalar) -> None:
    found = judge(cell("a", 4), cell("b", other), most=1_000_000)

    assert found.state is RuleState.EXCEEDED
    assert found.why == "`revenue` has differences that are not numbers, and it allows 1e+06"


def test_a_volume_that_is_not_a_number_is_within_no_limit() -> None:
    assert judge(cell("a", 1.0), cell("b", float("nan")), most=1_000_000).state is RuleState.EXCEEDED


def test_cells_of_a_row_are_at_one_place_in_whatever_order_their_keys_come() -> None:
    one, other = cell("a", 1, key={"shop": "a", "desk": 1}), cell("a", 1, key={"desk": 1, "shop": "a"})

    assert place_of(one) == place_of(other)


def test_rows_of_one_key_in_two_windows_are_at_two_places() -> None:
    assert place_of(cell("a", 1)) != place_of(cell("a", 1, window_start="2026-01-01T01:00:00Z"))


def test_rows_of_tables_without_windows_are_at_a_place_by_their_key() -> None:
    one, other = cell("a", 1, window_start=None), cell("b", 1, window_start=None)

    assert place_of(one) == place_of(cell("a", 2, window_start=None)) == ("", '{"shop": "a"}')
    assert place_of(one) != place_of(other)
