"""N1, completeness: every record of the log is counted in exactly one place.

For every epoch, the (record, window) pairs that it counted by class match the records that a read_committed reader
gets from `[start, end)`. Records are counted by reading, since with transactions not every offset is a record. A record
is one pair in each of its windows, and one pair if it has none. Each count matches the rows in the table: the ledger's
pairs of the epoch by class and by position, filtered pairs only by number, and accepted pairs summed up to every epoch
whose rows are separate from later ones. Ledger positions are within their epoch's offsets, and each appears once in a
window. The batch path has a separate ledger: each offset is scanned by one run, and each position appears once in a
window (a duplicate once for each run that computed the window).
"""

from collections.abc import Iterator, Mapping

from cutover.counts import count_noun
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.integrity.lost_records import record_bounds
from cutover.log.topic_partitions import format_partition_number
from cutover.reconcile.verify.facts.facts import NOT_REQUESTED, BatchLedger, LogCounts, RowTotals, VerifyFacts
from cutover.reconcile.verify.model import Unknown, Violation, cap_violations, format_utc_time
from cutover.records.classes import WITH_POSITIONS, Class

TITLE = "the books balance"
_LEDGER = (*WITH_POSITIONS, Class.FILTERED)


def check(facts: VerifyFacts) -> Iterator[Violation]:
    """Yield the counts of records and pairs that do not match."""
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
    """Describe how many epochs and records were counted again in the log."""
    if not isinstance(facts.log, LogCounts):
        return count_noun(len(facts.records), "epoch")
    return (
        f"{len(facts.log.epochs):,} of {count_noun(len(facts.records), 'epoch')}, "
        f"{count_noun(sum(facts.log.records.values()), 'record')}"
    )


def notes(facts: VerifyFacts) -> Iterator[str]:
    """Yield what was not checked."""
    if isinstance(facts.log, LogCounts) and facts.log.omission:
        yield facts.log.omission
    if isinstance(facts.batch_ledger, Unknown) and facts.batch_ledger != NOT_REQUESTED:
        yield f"The ledger of the batch path was not checked: {facts.batch_ledger.reason}"


def _check_records(facts: VerifyFacts, log: LogCounts) -> Iterator[str]:
    for record in facts.records:
        if record.epoch in log.epochs:
            few, many = record_bounds(record.counts, facts.pipeline.window)
            count = sum(log.records.get((record.epoch, p), 0) for p in record.end)
            if not few <= count <= many:
                place = f"Epoch {record.epoch} of {facts.stream}"
                text = f"{place}: the log holds {count_noun(count, 'record')} in {_format_offsets(record)}"
                expected = f"{few:,}" if few == many else f"{few:,} to {many:,}"
                yield f"{text}, expected {expected} by the classes that it counted ({_format_counts(record.counts)})."


def _check_ledger(facts: VerifyFacts, books: RowTotals) -> Iterator[str]:
    for record in facts.records:
        for name in _LEDGER:
            at, recorded_count = (record.epoch, name.value), record.counts.get(name, 0)
            text = f"Epoch {record.epoch} of {facts.stream}: expected {recorded_count:,} {name} pairs as it counted"
            if books.pairs.get(at, 0) != recorded_count:
                yield f"{text}, got rows of {books.pairs.get(at, 0):,}."
            elif name in WITH_POSITIONS and books.positions.get(at, 0) != recorded_count:
                yield f"{text}, got {count_noun(books.positions.get(at, 0), 'position')} in the ledger."


def _check_unrecorded_epochs(facts: VerifyFacts, books: RowTotals) -> Iterator[str]:
    recorded_epochs = {record.epoch for record in facts.records}
    for epoch, name in sorted(books.pairs):
        if epoch not in recorded_epochs:
            pairs = f"{books.pairs[epoch, name]:,} {name} pairs"
            yield f"Epoch log of {facts.stream}: expected an epoch {epoch} for {pairs}, got none."


def _check_accepted_rows(facts: VerifyFacts, books: RowTotals) -> Iterator[str]:
    """Yield the epochs up to which the accepted rows do not add up; each difference is reported where it begins."""
    pairs_by_epoch = books.accepted
    accepted_by_epoch = {record.epoch: record.counts.get(Class.ACCEPTED, 0) for record in facts.records}
    cumulative, epochs = 0, sorted({*pairs_by_epoch, *list(accepted_by_epoch)[-1:]})
    for previous, epoch in zip([-1, *epochs], epochs, strict=False):
        expected = sum(n for e, n in accepted_by_epoch.items() if previous < e <= epoch)
        difference = pairs_by_epoch.get(epoch, 0) - expected
        if difference:
            span = f"Epoch {epoch}" if epoch == previous + 1 else f"Epochs {previous + 1} to {epoch}"
            text = f"{span} of {facts.stream}: expected accepted rows of {count_noun(expected, 'pair')}"
            yield f"{text}, got {pairs_by_epoch.get(epoch, 0):,} ({cumulative + difference:+,} up to here)."
        cumulative += difference


def _check_ledger_faults(books: RowTotals) -> Iterator[str]:
    for doubt in books.doubts:
        partition = "none" if doubt.partition is None else format_partition_number(doubt.partition)
        at = f"epoch {doubt.epoch}, partition {partition}, offset {doubt.offset}"
        more = f" ({count_noun(doubt.rows, 'row')})" if doubt.rows > 1 else ""
        yield f"Ledger, {at}: {doubt.fault}{more}."


def _check_rescanned(books: BatchLedger) -> Iterator[str]:
    for offsets in books.rescanned:
        first_run, second_run = offsets.runs
        partition = format_partition_number(offsets.partition)
        text = f"Batch index, partition {partition}: expected each offset to be scanned by one run"
        yield f"{text}, got [{offsets.start}, {offsets.end}) of runs {first_run} and {second_run}."


def _check_doubled(books: BatchLedger) -> Iterator[str]:
    for position in books.doubled:
        window = format_utc_time(position.window_start)
        at = f"partition {format_partition_number(position.partition)}, offset {position.offset}, window {window}"
        yield f"Batch ledger, {at}: expected one row, got {position.rows} of runs {', '.join(position.runs)}."


def _format_offsets(record: EpochRecord) -> str:
    return ", ".join(
        f"{format_partition_number(p)}: [{record.start.get(p, 0)}, {end})" for p, end in sorted(record.end.items())
    )


def _format_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n:,} {name}" for name, n in sorted(counts.items()) if n) or "none"
