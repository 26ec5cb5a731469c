"""N9 own hands: nobody but the paths of a pipeline has changed a row of its tables.

Epoch log, batch table, its index and its ledger, dimensions of the lake, control tables. Each listed file has a name
that we gave it, and all of them weigh what the newest record of an epoch, or of a batch run, says (`foreign`). Files
that another writer rewrote without changing a row are no violation. Told from the newest version of each table.
"""

from collections.abc import Iterator

from cutover.reconcile.verify.facts.facts import VerifyFacts
from cutover.reconcile.verify.model import Unknown, Violation, cap_violations

TITLE = "rows of our own writers alone"


def check(facts: VerifyFacts) -> Iterator[Violation]:
    """Yield what another writer changed."""
    if not isinstance(facts.foreign, Unknown):
        yield from cap_violations("N9", facts.foreign)


def describe_coverage(facts: VerifyFacts) -> str:
    """Nothing to count: one version of each table is enough."""
    return "" if isinstance(facts.foreign, Unknown) else "the newest version of each table"
