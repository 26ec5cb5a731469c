"""N8, determinism: the same log and cut give the same result.

Windows that two batch runs computed at one cut are equal (floats except for the order of their sums), whatever the
number of shuffle partitions or the order of reading. If no cut was computed twice, nothing is compared; the tests
compute one with 1, 7 and 64 partitions.
"""

from collections.abc import Iterator

from cutover.counts import count_noun
from cutover.reconcile.verify.facts.facts import VerifyFacts
from cutover.reconcile.verify.model import Unknown, Violation, cap_violations, format_utc_time

TITLE = "same log and cut, same result"


def check(facts: VerifyFacts) -> Iterator[Violation]:
    """Yield the windows in which two runs at the same cut differ."""
    if isinstance(facts.repeated, Unknown):
        return
    for pair in facts.repeated:
        texts = (
            f"Window {format_utc_time(start)}: expected the result of batch run {pair.first_run} from {pair.second_run}"
            " at the same cut, got another one."
            for start in pair.changed_windows
        )
        yield from cap_violations("N8", [*texts])


def describe_coverage(facts: VerifyFacts) -> str:
    """Describe how many windows two runs computed at the same cut; empty if the runs are unknown."""
    if isinstance(facts.repeated, Unknown):
        return ""
    if not facts.repeated:
        return "no cut was computed twice"
    return (
        f"{count_noun(sum(pair.windows for pair in facts.repeated), 'window')} of "
        f"{count_noun(len(facts.repeated), 'pair')} of runs"
    )
