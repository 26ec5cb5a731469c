"""N5, path agreement: stream = batch, up to named causes.

At the cut of the newest batch run, under a valid seal (same log, cut, isolation, definition): for every (window, key),
batch less the stream's fold is the sum of what the causes contribute. With the same definition, the fold with the late
rows merged equals batch exactly. Only differences that an acceptance rule accepts may stay without a cause. The
reconciler evaluates this; without a valid seal the check is not provable.
"""

from collections.abc import Iterator

from cutover.counts import count_clause, count_noun
from cutover.reconcile.verify.facts.facts import Paths, VerifyFacts
from cutover.reconcile.verify.model import Violation, cap_violations

TITLE = "stream = batch, up to named causes"


def check(facts: VerifyFacts) -> Iterator[Violation]:
    """Yield the cells whose difference has no cause."""
    if isinstance(facts.paths, Paths):
        yield from cap_violations("N5", facts.paths.unexplained)


def describe_coverage(facts: VerifyFacts) -> str:
    """Describe the windows and rows of the newest comparison, and its late rows; empty without a comparison."""
    if not isinstance(facts.paths, Paths):
        return ""
    paths = facts.paths
    compared = f"{count_noun(paths.windows, 'window')}, {count_noun(paths.rows, 'row')} at epoch {paths.epoch}"
    return f"{compared}, {paths.late_rows:,} differ by late rows"


def notes(facts: VerifyFacts) -> Iterator[str]:
    """Yield how many rows acceptance rules accept, and how many windows are incomplete."""
    if isinstance(facts.paths, Paths) and facts.paths.accepted:
        rows = count_clause(facts.paths.accepted, "row", "has", "have")
        yield f"{rows} no cause and a rule that accepts this: no violation."
    if isinstance(facts.paths, Paths) and facts.paths.incomplete:
        reason = "records were lost, or their batch results are not complete"
        yield f"{count_clause(facts.paths.incomplete, 'window', 'is', 'are')} incomplete: {reason}."
