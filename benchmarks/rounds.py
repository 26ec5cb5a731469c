"""Interleaved rounds: what is compared runs by turns, and the first round is dropped."""

import time
from collections.abc import Callable, Mapping

Samples = dict[str, tuple[float, ...]]


def interleaved(variants: Mapping[str, Callable[[int], float]], rounds: int) -> Samples:
    """Return the number that each variant yields in each counted round.

    Args:
        variants: Name to a function of the round's number; round 0 warms up and is dropped.
        rounds: Counted rounds.
    """
    found: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(rounds + 1):
        # Every other round runs backwards, so that no variant always comes after the same one.
        for name in [*variants][:: 1 if number % 2 == 0 else -1]:
            result = variants[name](number)
            print(f"  round {number}  {name:14} {result:.4f}", flush=True)
            if number:
                found[name].append(round(result, 4))
    return {name: tuple(numbers) for name, numbers in found.items()}


def seconds(work: Callable[[], object]) -> float:
    """Return how long one call takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
