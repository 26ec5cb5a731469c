"""N4 every published epoch is right: it is the right answer for the prefix of the log that it names.

The accepted rows of an epoch (of the epochs that were folded into one), its ledger and its ids are exactly what the
plain-Python runner makes of the records in that epoch's offsets, judged by the watermark that the epoch names. The
fold of all epochs up to N merges these, and the epochs' offsets make up the log up to cut(N) without a gap (N3), so
`fold(<=N)` is the reference over the log up to cut(N) less the ledger, for every N whose rows can be told apart.
Plain Python is slow: without `--all` the newest epoch, the pinned ones and a seeded sample of the others are
recomputed; another run draws others.

A fold changes nothing: the table's result before its commit is the one after it, as long as the files of before are
kept.
"""

from collections.abc import Iterator, Mapping

from cutover.log.topic_partitions import format_number
from cutover.reconcile.comparison.equal import same
from cutover.reconcile.verify.facts.facts import Group, Prefix, RecomputedPortion, VerifyFacts
from cutover.reconcile.verify.model import Violation, cap_violations, moment
from cutover.records.reference import ResultRow, UncountedPair

TITLE = "every published epoch is right"


def check(facts: VerifyFacts) -> Iterator[Violation]:
    """Yield the (window, key) rows and the ledger's rows that plain Python does not confirm."""
    if isinstance(facts.prefix, Prefix):
        for portion in facts.prefix.portions:
            yield from cap_violations("N4", [*rows(portion)])
            yield from cap_violations("N4", [*ledger(portion)])
            yield from cap_violations("N4", [*known_ids(portion)])
        for fold in facts.prefix.folds:
            texts = (f"Fold in table version {fold.version}: {text}" for text in fold.different)
            yield from cap_violations("N4", [*texts])


def describe_coverage(facts: VerifyFacts) -> str:
    """Epochs, records, rows and folds that were computed again; empty where nothing could be."""
    if not isinstance(facts.prefix, Prefix):
        return ""
    portions = facts.prefix.portions
    epochs = sum(p.last - p.first + 1 for p in portions)
    text = f"{epochs:,} of {facts.prefix.of_epochs:,} epochs, {sum(p.records for p in portions):,} records,"
    text += f" {sum(len(p.expected) for p in portions):,} rows"
    return text + (f", {len(facts.prefix.folds)} folds" if facts.prefix.folds else "")


def notes(facts: VerifyFacts) -> Iterator[str]:
    """Yield that a sample was drawn, and what was left out."""
    if isinstance(facts.prefix, Prefix):
        if facts.prefix.sampled:
            yield f"A sample of the epochs was recomputed (--seed {facts.prefix.seed}); --all takes every one."
        if facts.prefix.left_out:
            yield facts.prefix.left_out


def rows(portion: RecomputedPortion) -> Iterator[str]:
    """Yield where the stream's rows are not those of plain Python."""
    for group in sorted({*portion.expected, *portion.found}, key=str):
        text = _differs(portion.expected.get(group), portion.found.get(group))
        if text:
            yield f"{_epochs(portion)}, {_place(group)}: {text}."


def ledger(portion: RecomputedPortion) -> Iterator[str]:
    """Yield where the ledger is not that of plain Python."""
    for row in sorted(portion.expected_ledger - portion.found_ledger, key=str):
        yield f"{_epochs(portion)}: expected {_entry(row)} in the ledger, got none."
    for row in sorted(portion.found_ledger - portion.expected_ledger, key=str):
        yield f"{_epochs(portion)}: expected no {_entry(row)} in the ledger, got one."


def known_ids(portion: RecomputedPortion) -> Iterator[str]:
    """Yield the ids that the stream remembers and no record of these epochs has, and the other way round."""
    for name, event in sorted(portion.expected_ids - portion.found_ids, key=str):
        yield f"{_epochs(portion)}: expected id {name!r}, event time {moment(event)}, to be remembered, it is not."
    for name, event in sorted(portion.found_ids - portion.expected_ids, key=str):
        yield f"{_epochs(portion)}: expected no id {name!r}, event time {moment(event)}, got one: no record brings it."


def _differs(expected: ResultRow | None, result_row: ResultRow | None) -> str:
    if expected is None or result_row is None:
        return f"expected {_records(expected)}, got {_records(result_row)}"
    if expected.n != result_row.n:
        return f"expected {expected.n:,} records, got {result_row.n:,}"
    return _first(expected.measures, result_row.measures)


def _first(expected: Mapping[str, object], found: Mapping[str, object]) -> str:
    for name, value in expected.items():
        if not same(value, found.get(name)):
            return f"{name}: expected {value}, got {found.get(name)}"
    return ""


def _records(row: ResultRow | None) -> str:
    return "no row" if row is None else f"a row of {row.n:,} records"


def _epochs(portion: RecomputedPortion) -> str:
    if portion.first == portion.last:
        return f"Epoch {portion.last}"
    return f"Epochs {portion.first} to {portion.last}"


def _place(group: Group) -> str:
    return f"window {moment(group[0])}, key {', '.join('null' if k is None else str(k) for k in group[2])}"


def _entry(row: UncountedPair) -> str:
    at = f"offset {row.offset} of partition {format_number(row.partition)}"
    reason = "" if row.reason is None else f" ({row.reason})"
    return f"{row.cls}{reason} {at}, window {moment(row.window_start)}, event time {moment(row.event_time)}"
