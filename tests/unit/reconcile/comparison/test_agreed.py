"""Comparison of results with tolerances that their measures declare, and of their states."""

import math
from dataclasses import replace

import pytest

from cutover.reconcile.attribution.cells import are_equal
from cutover.reconcile.comparison.layout import agreement_of, make_default_comparison, same
from cutover.records.reference import ApproximateFloat
from cutover.records.reference.measures import stddev
from tests.support.rows.measured import PIPELINE


@pytest.mark.parametrize(
    ("name", "factor", "same_definition", "expected"),
    [
        ("spread", 1.0, True, True),  # of one definition: exactly
        ("spread", 1 + 1e-12, True, False),
        ("spread", 1 + 1e-12, False, True),
        ("noisy", 1 + 1e-12, True, False),
        ("noisy", 1 + 1e-7, False, True),  # against a team's SQL there are no states
        ("noisy", 1 + 1e-5, False, False),
        ("high", 1 + 1e-12, True, False),  # a quantile of one definition: exactly
        ("high", 1.0009, False, True),  # against a team's own: within its error
        ("high", 1.0011, False, False),
        ("texts", 1.07, True, False),  # an estimate of one definition: exactly
        ("texts", 1.07, False, True),  # against a team's own number: within five standard errors
        ("texts", 1.09, False, False),
    ],
)
def test_results_of_a_measure_are_near(name: str, factor: float, *, same_definition: bool, expected: bool) -> None:
    value = agreement_of(
        PIPELINE,
        make_default_comparison(name, "BIGINT" if name == "texts" else "DOUBLE"),
        same_definition=same_definition,
    )

    assert are_equal(value, 4.0, 4.0 * factor) is expected


def test_a_state_column_is_compared_as_its_type_is() -> None:
    value = make_default_comparison("spread__sum", "DECIMAL(38,0)")

    assert agreement_of(replace(PIPELINE), value, same_definition=True) == value


def test_plain_python_bounds_the_effect_of_summation_order() -> None:
    assert same(ApproximateFloat(0.0, 1e-9), 1e-10)
    assert not same(ApproximateFloat(0.0, 1e-9), 1e-8)


def test_squares_beyond_the_largest_double_are_not_compared() -> None:
    beyond = stddev([1e200, -1e200])

    assert same(beyond, math.nan)
    assert not same(beyond, None)
