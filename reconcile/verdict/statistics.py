"""Sample size of audits, and upper bound on how often the paths diverge. Pure.

Audits have to find a fault of a given size in time. The fault: from some day on, a share of the (window, key) rows of
each window that becomes final is wrong, each independently of the others (`cells`), or a share of the windows is
entirely wrong (`windows`). An audit draws without replacement from the windows that became final since the previous
audit. A window of k rows hides a fault of share r with probability (1 - r)^k, or 1 - r. Drawing without replacement
finds at least as much as drawing with it (Hoeffding, "Probability inequalities for sums of bounded random variables",
1963, theorem 4), so n windows miss it with probability at most m^n, where m (`hides` below) is the mean over the
existing windows.

The bound on divergence is valid after every run: evaluating it often does not weaken it. The unit is a block: the
windows that a comparison of a newer cut adds. Windows and cells of one block fail together, so a block counts once,
however many of its rows differ, and a block whose first comparison diverged remains diverged. Let each block diverge
with a probability of at least p, whatever the earlier blocks did. Then for each q below p the product over blocks of
q / p (it diverged) or (1 - q) / (1 - p) (it did not) is a nonnegative supermartingale that begins at 1, and so is a
mean of such products. By Ville's inequality the probability that it ever reaches 20 is at most 5 %: a p at which it
does is refuted, at any time (Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", 2023,
section 4).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cutover.definition.model.policy import Audit
from cutover.reconcile.result.text import count_noun
from cutover.reconcile.result.text import share as format_share

DAY = 86_400_000_000
"""Microseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplePlan:
    """Number of windows that are drawn within the days in which the fault must be found."""

    audit: Audit
    available: int  # minimum number of windows that become final within those days
    hides: float  # mean probability that a window with the fault does not show it
    windows: int | None  # to draw within `within_days`; None if no number suffices

    @property
    def power(self) -> float:
        """Return the probability of finding the fault in time with the windows that can be drawn."""
        return 1.0 - self.hides ** (self.available if self.windows is None else min(self.windows, self.available))

    @property
    def refusal(self) -> str | None:
        """Describe why the policy cannot be met; None if it can."""
        if self.windows is not None and self.windows <= self.available:
            return None
        requirement = describe_requirement(self.audit)
        if self.windows is None:
            return f"{requirement}: no number of windows suffices, because final windows have no rows"
        return (
            f"expected {count_noun(self.windows, 'final window')} in {count_noun(self.audit.within_days, 'day')} "
            f"({requirement}), got {self.available:,}: with all of them the chance is {format_share(self.power)}"
        )

    def count_draws(self, days: int) -> int:
        """Count the windows to draw of those that became final within some days."""
        return math.ceil((self.windows or 0) * days / self.audit.within_days)


def describe_requirement(audit: Audit | None) -> str:
    """Describe what a policy requires of its samples.

    The text is recorded with an approval and compared with `==`: another wording makes earlier approvals differ.
    """
    if audit is None:
        return "no samples: final windows are not checked once batch is retired"
    population = "rows of final windows" if audit.faults == "cells" else "final windows"
    requirement = f"is found within {count_noun(audit.within_days, 'day')} with a chance of {_percent(audit.power)}"
    return f"a fault in {_percent(audit.share)} of the {population} {requirement}"


def _percent(share: float) -> str:
    return f"{share * 100:.10g} %"


def find_miss_chance(audit: Audit, rows: int) -> float:
    """Compute the probability that a window with this number of rows does not show the fault."""
    return (1.0 - audit.share) ** (rows if audit.faults == "cells" else 1)


def plan_sample(audit: Audit, rows: Sequence[int], available: int) -> SamplePlan:
    """Plan how many windows to draw.

    Args:
        audit: The policy.
        rows: Numbers of rows of the latest final windows, including empty ones; none if no window is final yet.
        available: Minimum number of windows that become final within any period of the policy's days.
    """
    hides = math.fsum(find_miss_chance(audit, count) for count in rows) / len(rows) if rows else 1.0
    window_count = None
    if hides <= 0.0:
        window_count = 1
    elif hides < 1.0:
        window_count = max(1, math.ceil(math.log1p(-audit.power) / math.log(hides)))
    return SamplePlan(audit=audit, available=available, hides=hides, windows=window_count)


def find_sample_miss_chance(audit: Audit, rows: Sequence[int]) -> float:
    """Compute the probability that no window with these numbers of rows shows the fault."""
    return math.prod(find_miss_chance(audit, count) for count in rows)


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
