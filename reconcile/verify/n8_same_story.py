"""N8 same seed, same story: what is computed twice from the same log up to the same cut is the same.

Windows that two batch runs computed at one cut have equal digests, whatever the number of shuffle partitions or the
order of reading. Where no cut was computed twice there is nothing to compare; the tests compute one with 1, 7 and 64
partitions.
"""

from collections.abc import Iterator, Mapping

from reconcile.verify.facts import Facts
from reconcile.verify.model import Unknown, Violation, capped
from reconcile.verify.n6_forward import moment

TITLE = "same log and cut, same result"
Digests = Mapping[int, tuple[int, int, int]]  # window start -> rows, xor and sum of their hashes


def check(facts: Facts) -> Iterator[Violation]:
    """Yield the windows in which two runs at one cut differ."""
    if isinstance(facts.twice, Unknown):
        return
    for pair in facts.twice:
        texts = (
            f"Window {moment(start)}: expected the result of batch run {pair.first_run} from {pair.second_run}"
            " at the same cut, got another one."
            for start in pair.changed
        )
        yield from capped("N8", [*texts])


def changed(first: Digests, second: Digests) -> tuple[int, ...]:
    """Return the windows whose digests differ; a window that is on one side alone differs."""
    return tuple(sorted(at for at in {*first, *second} if first.get(at) != second.get(at)))


def looked_at(facts: Facts) -> str:
    """Return what was compared."""
    if isinstance(facts.twice, Unknown):
        return ""
    if not facts.twice:
        return "no cut was computed twice"
    return f"{sum(pair.windows for pair in facts.twice):,} windows of {len(facts.twice)} pairs of runs"
