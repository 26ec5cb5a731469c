"""Interleaved rounds: the compared variants run alternately, and the first round is dropped."""

import time
from collections.abc import Callable, Mapping

Samples = dict[str, tuple[float, ...]]


def measure_interleaved(variants: Mapping[str, Callable[[int], float]], rounds: int) -> Samples:
    """Run all variants in interleaved rounds; return the result of each variant in each measured round.

    Args:
        variants: Function of the round's number for each variant; round 0 is a warm-up and is dropped.
        rounds: Number of measured rounds.
    """
    samples: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(rounds + 1):
        # Every other round runs in reverse order, so that no variant always follows the same one.
        for name in [*variants][:: 1 if number % 2 == 0 else -1]:
            result = variants[name](number)
            print(f"  round {number}  {name:14} {result:.4f}", flush=True)
            if number:
                samples[name].append(round(result, 4))
    return {name: tuple(numbers) for name, numbers in samples.items()}


def time_call(work: Callable[[], object]) -> float:
    """Return the seconds that one call takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
