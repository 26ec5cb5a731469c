"""N1 the books balance: every record that the log gives is in exactly one place.

For every epoch e: the (record, window) pairs that it counted by class are those of the records that a read_committed
reader gets from `[start, end)`, counted by reading, since offsets are not records where there are transactions. A
record is one pair in each of its windows, one if it has none. Each count is that of the rows in the table: the
ledger's pairs of the epoch by class and by position, filtered ones by number alone; accepted ones summed up to every
epoch whose rows can be told apart from later ones. Ledger positions lie in their epoch's offsets, each stands once in
a window. The batch path keeps books of its own: each offset is scanned by one run, and each position stands once in a
window of its ledger (a duplicate once for each run that computed the window).
"""

from collections.abc import Iterator, Mapping

from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.integrity.lost_records import record_bounds
from cutover.log.topic_partitions import format_number
from cutover.reconcile.verify.facts.facts import NOT_ASKED, BatchLedger, LogCounts, RowTotals, VerifyFacts
from cutover.reconcile.verify.model import Unknown, Violation, cap_violations, moment
from cutover.records.classes import WITH_POSITIONS, Class

TITLE = "the books balance"
_LEDGER = (*WITH_POSITIONS, Class.FILTERED)


def check(facts: VerifyFacts) -> Iterator[Violation]:
    """Yield where records and pairs do not add up."""
    if isinstance(facts.log, LogCounts):
        yield from cap_violations("N1", [*_check_records(facts, facts.log)])
    if isinstance(facts.books, RowTotals):
        yield from cap_violations("N1", [*_check_ledger(facts, facts.books)])
        yield from cap_violations("N1", [*_check_unrecorded_epochs(facts, facts.books)])
        yield from cap_violations("N1", [*_check_accepted_rows(facts, facts.books)])
        yield from cap_violations("N1", [*_check_ledger_faults(facts.books)])
    if isinstance(facts.batch_ledger, BatchLedger):
        yield from cap_violations("N1", [*_check_rescanned(facts.batch_ledger)])
        yield from cap_violations("N1", [*_check_doubled(facts.batch_ledger)])


def describe_coverage(facts: VerifyFacts) -> str:
    """Epochs whose records were counted again in the log, and how many those are."""
    if not isinstance(facts.log, LogCounts):
        return f"{len(facts.records):,} epochs"
    return f"{len(facts.log.epochs):,} of {len(facts.records):,} epochs, {sum(facts.log.records.values()):,} records"


def notes(facts: VerifyFacts) -> Iterator[str]:
    """Yield what was left out."""
    if isinstance(facts.log, LogCounts) and facts.log.left_out:
        yield facts.log.left_out
    if isinstance(facts.batch_ledger, Unknown) and facts.batch_ledger != NOT_ASKED:
        yield f"The ledger of the batch path was not checked: {facts.batch_ledger.why}"


def _check_records(facts: VerifyFacts, log: LogCounts) -> Iterator[str]:
    for record in facts.records:
        if record.epoch in log.epochs:
            few, many = record_bounds(record.counts, facts.pipeline.window)
            found = sum(log.records.get((record.epoch, p), 0) for p in record.end)
            if not few <= found <= many:
                text = f"Epoch {record.epoch} of {facts.stream}: the log holds {found:,} records in {_span(record)}"
                expected = f"{few:,}" if few == many else f"{few:,} to {many:,}"
                yield f"{text}, expected {expected} by the classes that it counted ({_classes(record.counts)})."


def _check_ledger(facts: VerifyFacts, books: RowTotals) -> Iterator[str]:
    for record in facts.records:
        for name in _LEDGER:
            at, counted = (record.epoch, name.value), record.counts.get(name, 0)
            text = f"Epoch {record.epoch} of {facts.stream}: expected {counted:,} {name} pairs as it counted"
            if books.pairs.get(at, 0) != counted:
                yield f"{text}, got rows of {books.pairs.get(at, 0):,}."
            elif name in WITH_POSITIONS and books.listed.get(at, 0) != counted:
                yield f"{text}, got {books.listed.get(at, 0):,} positions in the ledger."


def _check_unrecorded_epochs(facts: VerifyFacts, books: RowTotals) -> Iterator[str]:
    known = {record.epoch for record in facts.records}
    for epoch, name in sorted(books.pairs):
        if epoch not in known:
            pairs = f"{books.pairs[epoch, name]:,} {name} pairs"
            yield f"Epoch log of {facts.stream}: expected an epoch {epoch} for {pairs}, got none."


def _check_accepted_rows(facts: VerifyFacts, books: RowTotals) -> Iterator[str]:
    """Yield the epochs up to which the accepted rows do not add up; a difference is named where it begins."""
    found = books.accepted
    counted = {record.epoch: record.counts.get(Class.ACCEPTED, 0) for record in facts.records}
    rest, epochs = 0, sorted({*found, *list(counted)[-1:]})
    for before, epoch in zip([-1, *epochs], epochs, strict=False):
        expected = sum(n for e, n in counted.items() if before < e <= epoch)
        off = found.get(epoch, 0) - expected
        if off:
            span = f"Epoch {epoch}" if epoch == before + 1 else f"Epochs {before + 1} to {epoch}"
            text = f"{span} of {facts.stream}: expected accepted rows of {expected:,} pairs"
            yield f"{text}, got {found.get(epoch, 0):,} ({rest + off:+,} up to here)."
        rest += off


def _check_ledger_faults(books: RowTotals) -> Iterator[str]:
    for doubt in books.doubts:
        partition = "none" if doubt.partition is None else format_number(doubt.partition)
        at = f"epoch {doubt.epoch}, partition {partition}, offset {doubt.offset}"
        more = f" ({doubt.rows:,} rows)" if doubt.rows > 1 else ""
        yield f"Ledger, {at}: {doubt.why}{more}."


def _check_rescanned(books: BatchLedger) -> Iterator[str]:
    for one in books.rescanned:
        first, second = one.runs
        text = f"Batch index, partition {format_number(one.partition)}: expected each offset to be scanned by one run"
        yield f"{text}, got [{one.first}, {one.end}) of runs {first} and {second}."


def _check_doubled(books: BatchLedger) -> Iterator[str]:
    for one in books.doubled:
        at = f"partition {format_number(one.partition)}, offset {one.offset}, window {moment(one.window_start)}"
        yield f"Batch ledger, {at}: expected one row, got {one.rows} of runs {', '.join(one.runs)}."


def _span(record: EpochRecord) -> str:
    return ", ".join(f"{format_number(p)}: [{record.start.get(p, 0)}, {end})" for p, end in sorted(record.end.items()))


def _classes(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n:,} {name}" for name, n in sorted(counts.items()) if n) or "none"
