"""N3 no gap, no overlap: every offset up to the newest epoch belongs to exactly one epoch.

One topic id for all epochs; epoch e + 1 starts where epoch e ended, in every partition; a partition that is new
starts at 0, none goes away; epochs 0 to E without a hole; the table's transaction is E; nobody has seen a later epoch
or table version, or another end of an epoch. A recorded loss is the only excuse. Told from the rows of the epochs,
which outlive clean-up and compaction (`chain`).
"""

from collections.abc import Iterator

from cutover.lake.epochs import chain
from cutover.lake.integrity import high_water
from cutover.log.topic_partitions import format_number
from cutover.reconcile.verify.facts.facts import VerifyFacts
from cutover.reconcile.verify.model import Violation, cap_violations

TITLE = "no gap, no overlap"


def check(facts: VerifyFacts) -> Iterator[Violation]:
    """Yield where offsets were skipped, read twice, or come from another log."""
    name, records = facts.stream, facts.records
    yield from cap_violations("N3", [*chain.numbers(name, records, facts.transaction)])
    yield from cap_violations("N3", [*_find_vanished(facts)])
    yield from cap_violations("N3", [*chain.joints(name, records, facts.losses)])
    yield from cap_violations("N3", [*chain.identity(name, records)])


def _find_vanished(facts: VerifyFacts) -> tuple[str, ...]:
    """Return what a reader saw (a driver, a batch run, a reader) and the table no longer shows."""
    found, version = facts.records, facts.table_version
    return high_water.find_contradictions(facts.seen, found, name=facts.stream, table_version=version)


def describe_coverage(facts: VerifyFacts) -> str:
    """Epoch records, and the offsets between their starts and ends."""
    offsets = sum(end - r.start.get(p, 0) for r in facts.records for p, end in r.end.items())
    return f"{len(facts.records):,} epochs, {offsets:,} offsets"


def notes(facts: VerifyFacts) -> Iterator[str]:
    """Yield where the log began after 0, and what was lost."""
    for record in facts.records[:1]:
        for p, start in sorted(record.start.items()):
            if start:
                yield f"Partition {format_number(p)} was read from offset {start:,} on: the log held nothing before it."
    for loss in facts.losses:
        upto = "an unknown offset" if loss.next is None else f"{loss.next:,}"
        lost = f"Partition {format_number(loss.partition)}: offsets {loss.first:,} to {upto}"
        yield f"{lost} are a recorded loss ({loss.who}: {loss.why})."
