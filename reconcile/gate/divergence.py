"""How often the paths diverge at most, said so that one may look after every run and stop when one likes.

The unit is a block: the windows that a comparison of a newer cut adds. Windows and cells of one block fail together, so
a block counts once, however many of its rows differ, and one whose first comparison diverged stays so. Let each block
diverge with a chance of at least p, whatever was seen before. Then for each q below p the product over blocks of q / p
(it diverged) or (1 - q) / (1 - p) (it did not) is a nonnegative supermartingale that begins at 1, and so is a mean of
such. By Ville's inequality it ever reaches 20 with a chance of at most 5 %: a p at which it does is refuted, whenever
one looks (Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", 2023, section 4).
"""

import math

CONFIDENCE = 0.95

_BETS = ((0.0, 1 / 2), (0.1, 1 / 6), (0.3, 1 / 6), (0.6, 1 / 6))
"""Shares q / p with their weights: half on a path that never diverges, the rest on some that do now and then."""

_HALVINGS = 60  # of [0, 1]: as fine as a double is at the smallest bound that a million blocks give
_MANY = 1_000_000
_LARGEST = 600.0  # logarithm: beyond it a double is infinite


def wealth(blocks: int, diverged: int, rate: float) -> float:
    """Return the e-value of a bet against "a block diverges with a chance of `rate` or more": 20 refutes it.

    Args:
        blocks: That were compared.
        diverged: Those of them that did.
        rate: Above 0, at most 1.
    """
    if rate >= 1:
        return math.inf if diverged < blocks else 1.0
    same = blocks - diverged
    logs = [
        math.log(weight) + (diverged * math.log(share) if diverged else 0.0) + same * _log_factor(share, rate)
        for share, weight in _BETS
        if share or not diverged
    ]
    return math.exp(min(max(logs), _LARGEST)) * sum(math.exp(one - max(logs)) for one in logs)


def _log_factor(share: float, rate: float) -> float:
    return math.log1p(-share * rate) - math.log1p(-rate)


def upper_bound(blocks: int, diverged: int) -> float:
    """Return the largest chance of a divergence in a block that is not refuted at 95 %; 1 without blocks."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_refuted(blocks, diverged, middle) else (middle, high)
    return high


def is_refuted(blocks: int, diverged: int, rate: float) -> bool:
    """Return whether blocks diverge less often than `rate`, at 95 %."""
    return wealth(blocks, diverged, rate) * (1 - CONFIDENCE) >= 1


def missing_blocks(blocks: int, diverged: int, rate: float) -> int | None:
    """Return how many further blocks without a divergence would refute `rate`; None: more than a million."""
    low, high = 0, _MANY
    if not is_refuted(blocks + high, diverged, rate):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_refuted(blocks + middle, diverged, rate) else (middle + 1, high)
    return low
