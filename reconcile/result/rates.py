"""Rates with their exact 95 % confidence intervals."""

from dataclasses import dataclass
from math import exp, fsum, lgamma, log, log1p

CONFIDENCE = 0.95
_STEPS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Number of hits and tries, with both ends of the interval of Clopper and Pearson (1934), 95 %."""

    hits: int
    of: int
    lower: float
    upper: float


def rate(hits: int, of: int) -> Rate:
    """Compute a rate with its bounds; without tries, the interval is [0, 1].

    Args:
        hits: Number of hits.
        of: Number of tries.
    """
    lower = 0.0 if hits == 0 else _lower_end(hits, of)
    upper = 1.0 if hits == of else 1 - _lower_end(of - hits, of)
    return Rate(hits=hits, of=of, lower=lower, upper=upper)


def _lower_end(hits: int, of: int) -> float:
    """Find the share at which this number of hits or more has the probability of one tail, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _chance_of_more(hits, of, middle) < (1 - CONFIDENCE) / 2:
            low = middle
        else:
            high = middle
    return low


def _chance_of_more(hits: int, of: int, share: float) -> float:
    """Compute the probability of `hits` or more in `of` tries, each with probability `share` (above 0, below 1).

    The sum is over the tail beyond the mean, whose terms decrease; the other tail is 1 minus it.
    """
    if hits > of * share:
        return fsum(_chance(number, of, share) for number in range(hits, of + 1))
    return 1 - fsum(_chance(number, of, share) for number in range(hits))


def _chance(number: int, of: int, share: float) -> float:
    ways = lgamma(of + 1) - lgamma(number + 1) - lgamma(of - number + 1)
    return exp(ways + number * log(share) + (of - number) * log1p(-share))
