"""N3, contiguity: every offset up to the newest epoch belongs to exactly one epoch, without gap or overlap.

All epochs have one topic id. Epoch e + 1 starts where epoch e ended, in every partition; a new partition starts at 0,
and no partition disappears. Epochs 0 to E are complete, the table's transaction is E, and no reader has seen a later
epoch or table version, or another end of an epoch. The only exceptions are recorded losses. The check reads the epoch
records, which outlive clean-up and compaction (`chain`).
"""

from collections.abc import Iterator

from cutover.counts import count_noun
from cutover.lake.epochs import offsets
from cutover.lake.integrity import high_water
from cutover.log.topic_partitions import format_partition_number
from cutover.reconcile.verify.facts.facts import VerifyFacts
from cutover.reconcile.verify.model import Violation, cap_violations

TITLE = "no gap, no overlap"


def check(facts: VerifyFacts) -> Iterator[Violation]:
    """Yield the places at which offsets were skipped, read twice, or come from another log."""
    name, records = facts.stream, facts.records
    yield from cap_violations("N3", [*offsets.describe_number_gaps(name, records, facts.transaction)])
    yield from cap_violations("N3", [*_find_vanished(facts)])
    yield from cap_violations("N3", [*offsets.describe_offset_breaks(name, records, facts.losses)])
    yield from cap_violations("N3", [*offsets.describe_log_changes(name, records)])


def _find_vanished(facts: VerifyFacts) -> tuple[str, ...]:
    """Find what a driver, a batch run or a reader saw that the table no longer contains."""
    return high_water.find_contradictions(
        facts.witnesses, facts.records, name=facts.stream, table_version=facts.table_version
    )


def describe_coverage(facts: VerifyFacts) -> str:
    """Describe how many epoch records and offsets were checked."""
    offsets = sum(end - r.start.get(p, 0) for r in facts.records for p, end in r.end.items())
    return f"{count_noun(len(facts.records), 'epoch')}, {count_noun(offsets, 'offset')}"


def notes(facts: VerifyFacts) -> Iterator[str]:
    """Yield the partitions that were not read from offset 0, and the recorded losses."""
    for record in facts.records[:1]:
        for p, start in sorted(record.start.items()):
            if start:
                partition = format_partition_number(p)
                yield f"Partition {partition} was read from offset {start:,} on: the log held nothing before it."
    for loss in facts.losses:
        upto = "an unknown offset" if loss.next is None else f"{loss.next:,}"
        offsets = f"Partition {format_partition_number(loss.partition)}: offsets {loss.first:,} to {upto}"
        yield f"{offsets} are a recorded loss ({loss.who}: {loss.why})."
