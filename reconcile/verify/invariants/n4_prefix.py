"""N4, prefix: every published epoch is the correct result for the prefix of the log that it covers.

The accepted rows of an epoch (or of the epochs that were folded into one), its ledger and its ids are exactly what the
plain-Python runner computes from the records in the epoch's offsets and the epoch's watermark. The fold of all epochs
up to N merges these rows, and the epochs' offsets cover the log up to cut(N) without a gap (N3). So `fold(<=N)` is the
reference over the log up to cut(N) less the ledger, for every N whose rows are separate from later ones. Plain Python
is slow: without `--all`, the newest epoch, the pinned ones and a seeded sample of the others are recomputed, and each
run draws another sample.

A fold changes no result: the table's results before and after its commit are compared as long as the older files are
retained.
"""

from collections.abc import Iterator, Mapping

from cutover.counts import count_noun
from cutover.log.topic_partitions import format_partition_number
from cutover.reconcile.comparison.layout import same
from cutover.reconcile.verify.facts.facts import Group, Prefix, RecomputedPortion, VerifyFacts
from cutover.reconcile.verify.model import Violation, cap_violations, format_utc_time
from cutover.records.reference import ResultRow, UncountedPair

TITLE = "every published epoch is correct"


def check(facts: VerifyFacts) -> Iterator[Violation]:
    """Yield the (window, key) rows, ledger rows and ids that differ from the recomputed ones."""
    if isinstance(facts.prefix, Prefix):
        for portion in facts.prefix.portions:
            yield from cap_violations("N4", [*list_row_differences(portion)])
            yield from cap_violations("N4", [*compare_ledgers(portion)])
            yield from cap_violations("N4", [*compare_ids(portion)])
        for fold in facts.prefix.folds:
            texts = (f"Fold in table version {fold.version}: {text}" for text in fold.different)
            yield from cap_violations("N4", [*texts])


def describe_coverage(facts: VerifyFacts) -> str:
    """Describe which epochs, records, rows and folds were recomputed; empty if none could be."""
    if not isinstance(facts.prefix, Prefix):
        return ""
    portions = facts.prefix.portions
    epochs = sum(p.last_epoch - p.first_epoch + 1 for p in portions)
    text = (
        f"{epochs:,} of {count_noun(facts.prefix.of_epochs, 'epoch')}, "
        f"{count_noun(sum(p.records for p in portions), 'record')},"
    )
    text += f" {count_noun(sum(len(p.expected) for p in portions), 'row')}"
    return text + (f", {count_noun(len(facts.prefix.folds), 'fold')}" if facts.prefix.folds else "")


def notes(facts: VerifyFacts) -> Iterator[str]:
    """Yield a note if only a sample was recomputed, and what was omitted."""
    if isinstance(facts.prefix, Prefix):
        if facts.prefix.sampled:
            yield f"A sample of the epochs was recomputed (--seed {facts.prefix.seed}); --all recomputes all of them."
        if facts.prefix.omission:
            yield facts.prefix.omission


def list_row_differences(portion: RecomputedPortion) -> Iterator[str]:
    """Yield the differences between the stream's rows and the recomputed ones."""
    for group in sorted({*portion.expected, *portion.actual}, key=str):
        text = _describe_row_difference(portion.expected.get(group), portion.actual.get(group))
        if text:
            yield f"{_format_epochs(portion)}, {_format_group(group)}: {text}."


def compare_ledgers(portion: RecomputedPortion) -> Iterator[str]:
    """Yield the differences between the ledger and the recomputed one."""
    for row in sorted(portion.expected_ledger - portion.actual_ledger, key=str):
        yield f"{_format_epochs(portion)}: expected {_format_ledger_row(row)} in the ledger, got none."
    for row in sorted(portion.actual_ledger - portion.expected_ledger, key=str):
        yield f"{_format_epochs(portion)}: expected no {_format_ledger_row(row)} in the ledger, got one."


def compare_ids(portion: RecomputedPortion) -> Iterator[str]:
    """Yield the differences between the ids that the stream retains and the recomputed ones."""
    for name, event in sorted(portion.expected_ids - portion.actual_ids, key=str):
        text = f"expected id {name!r}, event time {format_utc_time(event)}, to be retained"
        yield f"{_format_epochs(portion)}: {text}, got none."
    for name, event in sorted(portion.actual_ids - portion.expected_ids, key=str):
        text = f"expected no id {name!r}, event time {format_utc_time(event)}"
        yield f"{_format_epochs(portion)}: {text}, got one: no record has it."


def _describe_row_difference(expected: ResultRow | None, result_row: ResultRow | None) -> str:
    if expected is None or result_row is None:
        return f"expected {_describe_row(expected)}, got {_describe_row(result_row)}"
    if expected.n != result_row.n:
        return f"expected {count_noun(expected.n, 'record')}, got {result_row.n:,}"
    return _describe_first_difference(expected.measures, result_row.measures)


def _describe_first_difference(expected: Mapping[str, object], actual: Mapping[str, object]) -> str:
    for name, value in expected.items():
        if not same(value, actual.get(name)):
            return f"{name}: expected {value}, got {actual.get(name)}"
    return ""


def _describe_row(row: ResultRow | None) -> str:
    return "no row" if row is None else f"a row of {count_noun(row.n, 'record')}"


def _format_epochs(portion: RecomputedPortion) -> str:
    if portion.first_epoch == portion.last_epoch:
        return f"Epoch {portion.last_epoch}"
    return f"Epochs {portion.first_epoch} to {portion.last_epoch}"


def _format_group(group: Group) -> str:
    return f"window {format_utc_time(group[0])}, key {', '.join('null' if k is None else str(k) for k in group[2])}"


def _format_ledger_row(row: UncountedPair) -> str:
    at = f"offset {row.offset} of partition {format_partition_number(row.partition)}"
    reason = "" if row.reason is None else f" ({row.reason})"
    times = f"window {format_utc_time(row.window_start)}, event time {format_utc_time(row.event_time)}"
    return f"{row.cls}{reason} {at}, {times}"
