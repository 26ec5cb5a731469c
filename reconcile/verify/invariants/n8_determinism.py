"""N8 same seed, same story: what is computed twice from the same log up to the same cut is the same.

Windows that two batch runs computed at one cut are the same (floats but for the order of their sums), whatever the
number of shuffle partitions or the order of reading. Where no cut was computed twice there is nothing to compare; the
tests compute one with 1, 7 and 64 partitions.
"""

from collections.abc import Iterator

from cutover.reconcile.verify.facts.facts import VerifyFacts
from cutover.reconcile.verify.model import Unknown, Violation, cap_violations, moment

TITLE = "same log and cut, same result"


def check(facts: VerifyFacts) -> Iterator[Violation]:
    """Yield the windows in which two runs at one cut differ."""
    if isinstance(facts.twice, Unknown):
        return
    for pair in facts.twice:
        texts = (
            f"Window {moment(start)}: expected the result of batch run {pair.first_run} from {pair.second_run}"
            " at the same cut, got another one."
            for start in pair.changed
        )
        yield from cap_violations("N8", [*texts])


def describe_coverage(facts: VerifyFacts) -> str:
    """Windows that pairs of runs computed at one cut; empty where the runs are unknown."""
    if isinstance(facts.twice, Unknown):
        return ""
    if not facts.twice:
        return "no cut was computed twice"
    return f"{sum(pair.windows for pair in facts.twice):,} windows of {len(facts.twice)} pairs of runs"
