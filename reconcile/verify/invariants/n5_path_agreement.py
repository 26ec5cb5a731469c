"""N5 stream = batch, up to named causes.

At the cut of the newest batch run, under a seal that holds (same log, cut, isolation, definition): for every (window,
key) batch less the stream's fold is the sum of what the causes contribute; with the same definition the fold with the
late rows merged is the batch exactly. Nothing stays unexplained but what
a rule of people accepts. It is the reconciler's own judgement; where the seal
does not hold there is nothing to say.
"""

from collections.abc import Iterator

from cutover.reconcile.verify.facts.facts import Paths, VerifyFacts
from cutover.reconcile.verify.model import Violation, cap_violations

TITLE = "stream = batch, up to named causes"


def check(facts: VerifyFacts) -> Iterator[Violation]:
    """Yield the cells that nothing explains."""
    if isinstance(facts.paths, Paths):
        yield from cap_violations("N5", facts.paths.unexplained)


def describe_coverage(facts: VerifyFacts) -> str:
    """Windows and rows of the newest comparison, and how many rows differ by late ones; empty without one."""
    if not isinstance(facts.paths, Paths):
        return ""
    paths = facts.paths
    compared = f"{paths.windows:,} windows, {paths.rows:,} rows at epoch {paths.epoch}"
    return f"{compared}, {paths.late_rows:,} differ by late rows"


def notes(facts: VerifyFacts) -> Iterator[str]:
    """Yield how many windows were left out, and how many rows rules of people accept."""
    if isinstance(facts.paths, Paths) and facts.paths.accepted:
        yield f"{facts.paths.accepted:,} rows without a cause are accepted by rule, and so no violation."
    if isinstance(facts.paths, Paths) and facts.paths.incomplete:
        yield f"{facts.paths.incomplete:,} windows are incomplete: records were lost, or batch does not vouch for them."
