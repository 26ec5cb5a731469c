"""N9, sole writer: only the pipeline's paths have changed rows of its tables.

The check covers the epoch log, the batch table, its index and its ledger, dimensions in the lake and control tables.
Each listed file has a name that Cutover generated, and the weights of all files match the newest record of an epoch or
of a batch run (`foreign`). Files that another writer rewrote without changing a row are not violations. Only the newest
version of each table is read.
"""

from collections.abc import Iterator

from cutover.reconcile.verify.facts.facts import VerifyFacts
from cutover.reconcile.verify.model import Unknown, Violation, cap_violations

TITLE = "only Cutover has changed rows"


def check(facts: VerifyFacts) -> Iterator[Violation]:
    """Yield the changes by other writers."""
    if not isinstance(facts.foreign, Unknown):
        yield from cap_violations("N9", facts.foreign)


def describe_coverage(facts: VerifyFacts) -> str:
    """Describe the coverage: the newest version of each table; empty if it is unknown."""
    return "" if isinstance(facts.foreign, Unknown) else "the newest version of each table"
