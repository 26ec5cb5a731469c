"""Upper bound on how often the paths diverge, valid after every run: evaluating it often does not weaken it.

The unit is a block: the windows that a comparison of a newer cut adds. Windows and cells of one block fail together, so
a block counts once, however many of its rows differ, and a block whose first comparison diverged remains diverged. Let
each block diverge with a probability of at least p, whatever the earlier blocks did. Then for each q below p the
product over blocks of q / p (it diverged) or (1 - q) / (1 - p) (it did not) is a nonnegative supermartingale that
begins at 1, and so is a mean of such products. By Ville's inequality the probability that it ever reaches 20 is at most
5 %: a p at which it does is refuted, at any time (Waudby-Smith and Ramdas,
"Estimating means of bounded random variables by betting", 2023, section 4).
"""

import math

CONFIDENCE = 0.95

_BETS = ((0.0, 1 / 2), (0.1, 1 / 6), (0.3, 1 / 6), (0.6, 1 / 6))
"""Shares q / p with their weights: half on a path that never diverges, the rest on paths that diverge occasionally."""

_HALVINGS = 60  # of [0, 1]: as fine as a double is at the smallest bound that a million blocks give
_MANY = 1_000_000
_LARGEST = 600.0  # logarithm: beyond it a double is infinite


def wealth(blocks: int, diverged: int, rate: float) -> float:
    """Compute the e-value of a bet against "a block diverges with a probability of `rate` or more": 20 refutes it.

    Args:
        blocks: Number of compared blocks.
        diverged: Number of them that diverged.
        rate: Above 0, at most 1.
    """
    if rate >= 1:
        return math.inf if diverged < blocks else 1.0
    agreed = blocks - diverged
    logs = [
        math.log(weight) + (diverged * math.log(share) if diverged else 0.0) + agreed * _log_factor(share, rate)
        for share, weight in _BETS
        if share or not diverged
    ]
    return math.exp(min(max(logs), _LARGEST)) * sum(math.exp(value - max(logs)) for value in logs)


def _log_factor(share: float, rate: float) -> float:
    return math.log1p(-share * rate) - math.log1p(-rate)


def upper_bound(blocks: int, diverged: int) -> float:
    """Compute the largest divergence probability of a block that is not refuted at 95 %; 1 without blocks."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_refuted(blocks, diverged, middle) else (middle, high)
    return high


def is_refuted(blocks: int, diverged: int, rate: float) -> bool:
    """Return whether blocks diverge less often than `rate`, at 95 %."""
    return wealth(blocks, diverged, rate) * (1 - CONFIDENCE) >= 1


def count_missing_blocks(blocks: int, diverged: int, rate: float) -> int | None:
    """Count the further blocks without a divergence that would refute `rate`; None: more than a million."""
    low, high = 0, _MANY
    if not is_refuted(blocks + high, diverged, rate):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_refuted(blocks + middle, diverged, rate) else (middle + 1, high)
    return low
