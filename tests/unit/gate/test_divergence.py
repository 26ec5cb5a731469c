"""Anytime-valid upper bound on the divergence rate, and how tight it is."""

import random
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.reconcile.verdict import statistics

POLICY = 0.05
PIPELINES, RUNS = 2_000, 250
Chance = Callable[[random.Random, int, bool], float]  # draws, number of the block, whether the last one diverged


@cache
def is_refuted(blocks: int, diverged: int) -> bool:
    return statistics.is_refuted(blocks, diverged, POLICY)


def ever_passes(chance: Chance, draws: random.Random) -> bool:
    """Check whether a pipeline passes the gate at any of its runs if it is evaluated after each one."""
    diverged, last_diverged = 0, False
    for blocks in range(1, RUNS + 1):
        last_diverged = draws.random() < chance(draws, blocks, last_diverged)
        diverged += last_diverged
        if is_refuted(blocks, diverged):
            return True
    return False


@pytest.mark.parametrize(
    "chance",
    [
        pytest.param(lambda _draws, _block, _last_diverged: POLICY * 1.02, id="just above the policy"),
        pytest.param(lambda _draws, _block, last_diverged: 0.9 if last_diverged else POLICY, id="in bursts"),
        pytest.param(lambda _draws, block, _last_diverged: POLICY + (block % 24 == 0) * 0.5, id="worse every night"),
        pytest.param(lambda draws, _block, _last_diverged: POLICY * draws.uniform(1, 3), id="another rate each time"),
    ],
)
def test_at_most_one_in_twenty_bad_pipelines_ever_passes(chance: Chance) -> None:
    draws = random.Random(20261124)  # noqa: S311 -- a simulation

    pass_count = sum(ever_passes(chance, draws) for _ in range(PIPELINES))

    assert pass_count <= (1 - statistics.CONFIDENCE) * PIPELINES


def test_simulation_can_fail() -> None:
    draws = random.Random(20261124)  # noqa: S311 -- a simulation

    pass_count = sum(ever_passes(lambda *_: POLICY / 5, draws) for _ in range(PIPELINES))

    assert pass_count > PIPELINES * 0.8


def test_good_pipeline_passes_soon_after_a_single_evaluation_would() -> None:
    assert statistics.count_missing_blocks(0, 0, POLICY) == 66  # one look alone, at a time fixed before: 59
    assert statistics.upper_bound(66, 0) < POLICY < statistics.upper_bound(65, 0)


counts = st.integers(0, 5_000).flatmap(lambda blocks: st.tuples(st.just(blocks), st.integers(0, blocks)))
rates = st.floats(1e-6, 1.0)


@given(counts, rates, rates)
def test_a_larger_rate_is_refuted_no_later_than_a_smaller_one(
    observed_counts: tuple[int, int], first_rate: float, other: float
) -> None:
    low, high = sorted((first_rate, other))

    assert statistics.is_refuted(*observed_counts, high) or not statistics.is_refuted(*observed_counts, low)


@given(counts)
def test_bound_is_at_least_the_observed_rate_and_is_not_refuted(observed_counts: tuple[int, int]) -> None:
    blocks, diverged = observed_counts
    upper_bound = statistics.upper_bound(blocks, diverged)

    assert upper_bound >= (diverged / blocks if blocks else 1.0)
    assert not statistics.is_refuted(blocks, diverged, upper_bound * (1 - 1e-9))


@given(counts)
def test_another_divergence_never_helps(observed_counts: tuple[int, int]) -> None:
    blocks, diverged = observed_counts

    assert statistics.upper_bound(blocks + 1, diverged + 1) >= statistics.upper_bound(blocks + 1, diverged) - 1e-9


@given(counts, rates)
def test_missing_blocks_are_the_fewest_that_refute_the_rate(observed_counts: tuple[int, int], rate: float) -> None:
    blocks, diverged = observed_counts
    more = statistics.count_missing_blocks(blocks, diverged, rate)

    if more is None:
        assert not statistics.is_refuted(blocks + 1_000_000, diverged, rate)
        return
    assert statistics.is_refuted(blocks + more, diverged, rate)
    assert more == 0 or not statistics.is_refuted(blocks + more - 1, diverged, rate)


@pytest.mark.parametrize(("blocks", "diverged"), [(10, 0), (10, 2), (40, 7), (3, 3)])
def test_the_bet_is_the_mean_of_the_winnings_of_each_share(blocks: int, diverged: int) -> None:
    def win(share: float, rate: float) -> float:
        return float(share**diverged * ((1 - share * rate) / (1 - rate)) ** (blocks - diverged))

    expected = win(0.0, 0.2) / 2 + (win(0.1, 0.2) + win(0.3, 0.2) + win(0.6, 0.2)) / 6

    assert statistics.wealth(blocks, diverged, 0.2) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("blocks", "diverged", "refuted"), [(0, 0, False), (5, 5, False), (5, 4, True), (1, 0, True)])
def test_a_rate_of_one_is_refuted_by_one_block_that_agrees(blocks: int, diverged: int, refuted: bool) -> None:
    assert statistics.is_refuted(blocks, diverged, 1.0) is refuted


def test_a_bet_too_large_for_a_double_is_the_largest_double() -> None:
    assert statistics.is_refuted(1_000_000, 0, 0.5)
