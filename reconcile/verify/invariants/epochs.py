"""Invariants of records and epochs: N1 completeness, N2 single effect, N3 contiguity.

Each `check_` function yields the violations in the facts, and each `Invariant` states what it checks.
"""

import json
from collections.abc import Iterator, Mapping, Sequence

from cutover.counts import count_noun
from cutover.lake.epochs import delivery
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.integrity import high_water
from cutover.lake.integrity.lost_records import record_bounds
from cutover.log.topic_partitions import format_partition_number
from cutover.reconcile.verify.facts.facts import (
    NOT_REQUESTED,
    BatchLedger,
    EpochCommit,
    Invariant,
    LogCounts,
    RowTotals,
    Unknown,
    VerifyFacts,
    Violation,
    cap_violations,
    format_utc_time,
)
from cutover.records.classes import WITH_POSITIONS, Class

_LEDGER = (*WITH_POSITIONS, Class.FILTERED)


def check_completeness(facts: VerifyFacts) -> Iterator[Violation]:
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


def describe_completeness(facts: VerifyFacts) -> str:
    """Describe how many epochs and records were counted again in the log."""
    if not isinstance(facts.log, LogCounts):
        return count_noun(len(facts.records), "epoch")
    return (
        f"{len(facts.log.epochs):,} of {count_noun(len(facts.records), 'epoch')}, "
        f"{count_noun(sum(facts.log.records.values()), 'record')}"
    )


def list_completeness_notes(facts: VerifyFacts) -> Iterator[str]:
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
    for rescan in books.rescanned:
        first_run, second_run = rescan.runs
        partition = format_partition_number(rescan.partition)
        text = f"Batch index, partition {partition}: expected each offset to be scanned by one run"
        yield f"{text}, got [{rescan.start}, {rescan.end}) of runs {first_run} and {second_run}."


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


COMPLETENESS = Invariant(
    name="N1",
    title="the books balance",
    check=check_completeness,
    describe_coverage=describe_completeness,
    list_notes=list_completeness_notes,
    needs=("books", "log"),
    uses=("batch_ledger",),
)
"""N1, completeness: every record of the log is counted in exactly one place.

For every epoch, the (record, window) pairs that it counted by class match the records that a read_committed reader
gets from `[start, end)`. Records are counted by reading, since with transactions not every offset is a record. A record
is one pair in each of its windows, and one pair if it has none. Each count matches the rows in the table: the ledger's
pairs of the epoch by class and by position, filtered pairs only by number, and accepted pairs summed up to every epoch
whose rows are separate from later ones. Ledger positions are within their epoch's offsets, and each appears once in a
window. The batch path has a separate ledger: each offset is scanned by one run, and each position appears once in a
window (a duplicate once for each run that computed the window).
"""


HARMLESS = frozenset(
    {"CREATE TABLE", "OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "FSCK", "CHECKPOINT"}
)
REWRITE_MARKS = frozenset({"fold", "adopted"})


def check_single_effect(facts: VerifyFacts) -> Iterator[Violation]:
    """Yield duplicate epochs, commits of fenced drivers, and commits by other writers."""
    yield from cap_violations("N2", [*find_duplicate_epochs(facts.stream, facts.records)])
    yield from cap_violations("N2", [*find_fenced_commits(facts.stream, facts.records)])
    if not isinstance(facts.commits, Unknown):
        yield from cap_violations("N2", [*find_misordered_epochs(facts.stream, facts.commits)])
        yield from cap_violations("N2", [*find_rewritten(facts.stream, facts.commits, facts.records)])
        yield from cap_violations("N2", [*find_foreign_commits(facts.stream, facts.commits)])


def describe_single_effect(facts: VerifyFacts) -> str:
    """Describe how many epoch records and retained commits were checked."""
    commits = 0 if isinstance(facts.commits, Unknown) else len(facts.commits)
    return f"{count_noun(len(facts.records), 'epoch')}, {count_noun(commits, 'kept commit')}"


def find_duplicate_epochs(stream: str, records: Sequence[EpochRecord]) -> Iterator[str]:
    """Yield the epochs that have more than one record."""
    counts: dict[int, int] = {}
    for record in records:
        counts[record.epoch] = counts.get(record.epoch, 0) + 1
    for epoch, count in counts.items():
        if count > 1:
            yield f"Epoch log of {stream}: epoch {epoch}: expected one record, got {count}: it was committed twice."


def find_fenced_commits(stream: str, records: Sequence[EpochRecord]) -> Iterator[str]:
    """Yield the epochs that a driver committed after another one had fenced it."""
    fenced_runs: dict[str, EpochRecord] = {}
    current_run: str | None = None
    for record in records:
        if record.run_id in fenced_runs:
            fencing = fenced_runs[record.run_id]
            text = f"Epoch log of {stream}: epoch {record.epoch}: expected no commit of {record.run_id}"
            yield f"{text} after epoch {fencing.epoch} of {fencing.run_id} had fenced it, got one."
        if current_run is not None and record.run_id != current_run:
            fenced_runs.setdefault(current_run, record)
        current_run = record.run_id


def find_misordered_epochs(stream: str, commits: Sequence[EpochCommit]) -> Iterator[str]:
    """Yield the commits whose epoch does not follow the epoch of the previous epoch commit."""
    previous: tuple[int, int] | None = None
    for commit in commits:
        epoch = parse_epoch(commit)
        if epoch is None:
            continue
        if previous is not None and epoch != previous[1] + 1:
            text = f"Epoch log of {stream}: table version {commit.version}: expected epoch {previous[1] + 1} after"
            yield f"{text} epoch {previous[1]} (version {previous[0]}), got epoch {epoch}."
        previous = (commit.version, epoch)


def find_rewritten(stream: str, commits: Sequence[EpochCommit], records: Sequence[EpochRecord]) -> Iterator[str]:
    """Yield the epochs whose record differs from the one in their commit."""
    by_number = {record.epoch: record for record in records}
    for commit in commits:
        epoch = parse_epoch(commit)
        if epoch in by_number and EpochRecord.from_json(commit.mark or "") != by_number[epoch]:
            text = f"Epoch log of {stream}: epoch {epoch}: expected the record that table version {commit.version}"
            yield f"{text} committed, got another one."


def find_foreign_commits(stream: str, commits: Sequence[EpochCommit]) -> Iterator[str]:
    """Yield the commits that change rows and are neither an epoch nor a fold, unless a RESTORE undid them."""
    undone = find_undone(commits)
    for commit in commits:
        if not is_own_commit(commit) and commit.operation not in HARMLESS and commit.version not in undone:
            text = f"Epoch log of {stream}: table version {commit.version}: expected an epoch or a fold"
            yield f"{text}, got {commit.operation} without a record: it was not committed by Cutover."


def find_undone(commits: Sequence[EpochCommit]) -> frozenset[int]:
    """Return the versions that a RESTORE undid, and its own version, if no epoch or fold is between them.

    N9 checks by the weights of the files that all rows were restored.
    """
    commits_by_version, undone = {commit.version: commit for commit in commits}, set[int]()
    for commit in commits:
        if commit.restored_version is not None and not is_own_commit(commit):
            between = range(commit.restored_version + 1, commit.version)
            if all(
                version in commits_by_version and not is_own_commit(commits_by_version[version]) for version in between
            ):
                undone |= {*between, commit.version}
    return frozenset(undone)


def is_own_commit(commit: EpochCommit) -> bool:
    """Return whether a commit is an epoch's or a fold."""
    return parse_epoch(commit) is not None or commit.mark in REWRITE_MARKS


def parse_epoch(commit: EpochCommit) -> int | None:
    """Parse the epoch of a commit; None if it is not an epoch commit."""
    try:
        mark = json.loads(commit.mark or "")
    except ValueError:
        return None
    epoch = mark.get("epoch") if isinstance(mark, dict) else None
    return epoch if isinstance(epoch, int) else None


SINGLE_EFFECT = Invariant(
    name="N2",
    title="one effect",
    check=check_single_effect,
    describe_coverage=describe_single_effect,
    needs=("commits",),
)
"""N2, single effect: each epoch was committed once, by one driver at a time.

Each epoch of the version has one epoch record. After another driver has committed, the previous driver commits nothing
more; the run ids in the epoch records show this, and they outlive clean-up. In the retained part of the table's
history, the epochs of commits rise by exactly 1 in the order of table versions, each epoch record is the one in its
commit, and every commit that changes rows is an epoch or a fold. An append, delete or restore by another writer leaves
a commit without a record. Commits that a RESTORE has undone are not violations.
"""


def check_contiguity(facts: VerifyFacts) -> Iterator[Violation]:
    """Yield the places at which offsets were skipped, read twice, or come from another log."""
    name, records = facts.stream, facts.records
    yield from cap_violations("N3", [*delivery.describe_number_gaps(name, records, facts.transaction)])
    yield from cap_violations("N3", [*_find_vanished(facts)])
    yield from cap_violations("N3", [*delivery.describe_offset_breaks(name, records, facts.losses)])
    yield from cap_violations("N3", [*delivery.describe_log_changes(name, records)])


def _find_vanished(facts: VerifyFacts) -> tuple[str, ...]:
    """Find what a driver, a batch run or a reader saw that the table no longer contains."""
    return high_water.find_contradictions(
        facts.witnesses, facts.records, name=facts.stream, table_version=facts.table_version
    )


def describe_contiguity(facts: VerifyFacts) -> str:
    """Describe how many epoch records and offsets were checked."""
    offsets = sum(end - r.start.get(p, 0) for r in facts.records for p, end in r.end.items())
    return f"{count_noun(len(facts.records), 'epoch')}, {count_noun(offsets, 'offset')}"


def list_contiguity_notes(facts: VerifyFacts) -> Iterator[str]:
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


CONTIGUITY = Invariant(
    name="N3",
    title="no gap, no overlap",
    check=check_contiguity,
    describe_coverage=describe_contiguity,
    list_notes=list_contiguity_notes,
    needs=(),
)
"""N3, contiguity: every offset up to the newest epoch belongs to exactly one epoch, without gap or overlap.

All epochs have one topic id. Epoch e + 1 starts where epoch e ended, in every partition; a new partition starts at 0,
and no partition disappears. Epochs 0 to E are complete, the table's transaction is E, and no reader has seen a later
epoch or table version, or another end of an epoch. The only exceptions are recorded losses. The check reads the epoch
records, which outlive clean-up and compaction (`chain`).
"""
