"""N3 no gap, no overlap; see `chain`."""

from collections.abc import Iterator

from reconcile.verify import chain
from reconcile.verify.facts import Facts
from reconcile.verify.model import Violation, capped


def check(facts: Facts) -> Iterator[Violation]:
    """Yield where offsets were skipped, read twice, or come from another log."""
    name, records = facts.stream, facts.records
    yield from capped("N3", [*chain.numbers(name, records, facts.transaction)])
    yield from capped("N3", [*chain.known(name, records, facts.known_epoch)])
    yield from capped("N3", [*chain.joints(name, records, facts.losses)])
    yield from capped("N3", [*chain.identity(name, records)])
