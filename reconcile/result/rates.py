"""Error rates of the reconciler for a report, with exact 95 % confidence intervals, in total and by kind of defect."""

from collections.abc import Mapping
from dataclasses import dataclass, field
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


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRates:
    """Rates for one kind of defect: of (window, key) rows, or of tables if a defect damages an entire table."""

    detection_rate: Rate  # of planted defects
    false_alarm_rate: Rate  # of clean windows, in comparisons in which the kind was planted
    right_cause_rate: Rate  # of defects found row by row
    refused: int = 0  # found by a NOT_COMPARABLE that names the defect: counted as found, without a cause per row
    not_compared: int = 0  # other changed rows, in windows that are not compared


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRates:
    """Rates of the latest self-test of the reconciler on this pipeline."""

    at: str  # ISO
    seed: int
    passed: bool
    detection_rate: Rate  # of planted defects
    false_alarm_rate: Rate  # of windows without a planted defect
    right_cause_rate: Rate  # of defects found row by row, and of differences that existed before
    by_kind: Mapping[str, KindRates] = field(default_factory=dict)
    refused: int = 0  # rows found by a NOT_COMPARABLE, not in `right_cause_rate`
    not_compared: int = 0  # other changed rows, in windows that are not compared; in no rate
    drawn_in: int = 0  # rows that differed before and are compared together with a planted one; in no rate


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


def list_uncounted(error_rates: ErrorRates) -> tuple[tuple[int, str], ...]:
    """Return the numbers of rows that are not in all rates, each with the reason."""
    return (
        (
            error_rates.refused,
            "rows found by a refusal to compare that names their defect: found, but not named row by row",
        ),
        (
            error_rates.not_compared,
            "other changed rows: their windows are not compared, or they differed before",
        ),
        (error_rates.drawn_in, "rows that differed before and are judged together with planted ones"),
    )
