"""The bound on how often the paths diverge: valid whenever somebody looks, and not much wider than it must be."""

import random
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.reconcile.gate import divergence

POLICY = 0.05
PIPELINES, RUNS = 2_000, 250
Chance = Callable[[random.Random, int, bool], float]  # draws, number of the block, whether the last one diverged


@cache
def is_refuted(blocks: int, diverged: int) -> bool:
    return divergence.is_refuted(blocks, diverged, POLICY)


def ever_passes(chance: Chance, draws: random.Random) -> bool:
    """Return whether a pipeline is let through at any of its runs, looked at after each."""
    diverged, last = 0, False
    for blocks in range(1, RUNS + 1):
        last = draws.random() < chance(draws, blocks, last)
        diverged += last
        if is_refuted(blocks, diverged):
            return True
    return False


@pytest.mark.parametrize(
    "chance",
    [
        pytest.param(lambda _draws, _block, _last: POLICY * 1.02, id="just above the policy"),
        pytest.param(lambda _draws, _block, last: 0.9 if last else POLICY, id="in bursts"),
        pytest.param(lambda _draws, block, _last: POLICY + (block % 24 == 0) * 0.5, id="worse every night"),
        pytest.param(lambda draws, _block, _last: POLICY * draws.uniform(1, 3), id="another rate each time"),
    ],
)
def test_at_most_one_in_twenty_bad_pipelines_ever_passes(chance: Chance) -> None:
    draws = random.Random(20261124)  # noqa: S311 -- a simulation

    passed = sum(ever_passes(chance, draws) for _ in range(PIPELINES))

    assert passed <= (1 - divergence.CONFIDENCE) * PIPELINES


def test_simulation_can_fail() -> None:
    draws = random.Random(20261124)  # noqa: S311 -- a simulation

    passed = sum(ever_passes(lambda *_: POLICY / 5, draws) for _ in range(PIPELINES))

    assert passed > PIPELINES * 0.8


def test_good_pipeline_passes_not_much_later_than_a_single_look_would_take() -> None:
    assert divergence.count_missing_blocks(0, 0, POLICY) == 66  # one look alone, at a time fixed before: 59
    assert divergence.upper_bound(66, 0) < POLICY < divergence.upper_bound(65, 0)


counts = st.integers(0, 5_000).flatmap(lambda blocks: st.tuples(st.just(blocks), st.integers(0, blocks)))
rates = st.floats(1e-6, 1.0)


@given(counts, rates, rates)
def test_a_larger_rate_is_refuted_no_later(found: tuple[int, int], one: float, other: float) -> None:
    low, high = sorted((one, other))

    assert divergence.is_refuted(*found, high) or not divergence.is_refuted(*found, low)


@given(counts)
def test_bound_is_no_less_than_what_was_seen_and_not_refuted(found: tuple[int, int]) -> None:
    blocks, diverged = found
    bound = divergence.upper_bound(blocks, diverged)

    assert bound >= (diverged / blocks if blocks else 1.0)
    assert not divergence.is_refuted(blocks, diverged, bound * (1 - 1e-9))


@given(counts)
def test_another_divergence_never_helps(found: tuple[int, int]) -> None:
    blocks, diverged = found

    assert divergence.upper_bound(blocks + 1, diverged + 1) >= divergence.upper_bound(blocks + 1, diverged) - 1e-9


@given(counts, rates)
def test_what_is_said_to_be_missing_is_enough_and_no_more(found: tuple[int, int], rate: float) -> None:
    blocks, diverged = found
    more = divergence.count_missing_blocks(blocks, diverged, rate)

    if more is None:
        assert not divergence.is_refuted(blocks + 1_000_000, diverged, rate)
        return
    assert divergence.is_refuted(blocks + more, diverged, rate)
    assert more == 0 or not divergence.is_refuted(blocks + more - 1, diverged, rate)


@pytest.mark.parametrize(("blocks", "diverged"), [(10, 0), (10, 2), (40, 7), (3, 3)])
def test_the_bet_is_the_mean_of_what_each_share_would_have_won(blocks: int, diverged: int) -> None:
    def win(share: float, rate: float) -> float:
        return float(share**diverged * ((1 - share * rate) / (1 - rate)) ** (blocks - diverged))

    expected = win(0.0, 0.2) / 2 + (win(0.1, 0.2) + win(0.3, 0.2) + win(0.6, 0.2)) / 6

    assert divergence.wealth(blocks, diverged, 0.2) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("blocks", "diverged", "refuted"), [(0, 0, False), (5, 5, False), (5, 4, True), (1, 0, True)])
def test_that_every_block_diverges_is_refuted_by_one_that_does_not(blocks: int, diverged: int, refuted: bool) -> None:
    assert divergence.is_refuted(blocks, diverged, 1.0) is refuted


def test_a_bet_that_no_double_holds_is_as_large_as_one_can_be() -> None:
    assert divergence.is_refuted(1_000_000, 0, 0.5)
