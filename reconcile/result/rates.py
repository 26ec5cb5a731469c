"""A rate with its exact bounds: how many of how many, and between what the true rate lies with 95 %."""

from dataclasses import dataclass
from math import exp, fsum, lgamma, log, log1p

CONFIDENCE = 0.95
_STEPS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Hits of tries, with both ends of the interval of Clopper and Pearson (1934), 95 %."""

    hits: int
    of: int
    lower: float
    upper: float


def rate(hits: int, of: int) -> Rate:
    """Return a rate with its bounds; of nothing every rate is possible.

    Args:
        hits: Of the tries.
        of: Tries.
    """
    lower = 0.0 if hits == 0 else _lower_end(hits, of)
    upper = 1.0 if hits == of else 1 - _lower_end(of - hits, of)
    return Rate(hits=hits, of=of, lower=lower, upper=upper)


def _lower_end(hits: int, of: int) -> float:
    """Return the share at which so many hits or more have just the chance of one tail, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _chance_of_more(hits, of, middle) < (1 - CONFIDENCE) / 2:
            low = middle
        else:
            high = middle
    return low


def _chance_of_more(hits: int, of: int, share: float) -> float:
    """Return the chance of `hits` or more of `of` tries, each with the chance `share` (above 0, below 1).

    The tail on the far side of the mean is added up, whose terms get smaller: the other one is 1 less it.
    """
    if hits > of * share:
        return fsum(_chance(number, of, share) for number in range(hits, of + 1))
    return 1 - fsum(_chance(number, of, share) for number in range(hits))


def _chance(number: int, of: int, share: float) -> float:
    ways = lgamma(of + 1) - lgamma(number + 1) - lgamma(of - number + 1)
    return exp(ways + number * log(share) + (of - number) * log1p(-share))
