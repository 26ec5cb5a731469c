"""Bounds of rates: exact 95 % intervals, whose ends leave 2.5 % on each side."""

from fractions import Fraction
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.reconcile.result.parts import rate

TAIL = 0.025


def chance(numbers: range, of: int, share: float) -> float:
    """Compute the probability that the number of hits in `of` tries is one of some numbers, in exact fractions."""
    p = Fraction(share)
    return float(sum(comb(of, number) * p**number * (1 - p) ** (of - number) for number in numbers))


@given(st.integers(1, 40).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))))
def test_each_end_leaves_a_tail_of_the_binomial_distribution(tries: tuple[int, int]) -> None:
    hits, of = tries

    bounds = rate(hits, of)

    assert (bounds.lower == 0) == (hits == 0)
    assert (bounds.upper == 1) == (hits == of)
    if hits:
        assert chance(range(hits, of + 1), of, bounds.lower) == pytest.approx(TAIL, abs=1e-9)
    if hits < of:
        assert chance(range(hits + 1), of, bounds.upper) == pytest.approx(TAIL, abs=1e-9)


@pytest.mark.parametrize(("hits", "of"), [(6_834, 6_920), (1, 1_000_000), (500_000, 1_000_000)])
def test_bounds_of_many_tries_mirror_those_of_the_misses(hits: int, of: int) -> None:
    bounds, mirrored = rate(hits, of), rate(of - hits, of)

    assert bounds.lower < hits / of < bounds.upper
    assert (bounds.lower, bounds.upper) == pytest.approx((1 - mirrored.upper, 1 - mirrored.lower), abs=1e-12)
