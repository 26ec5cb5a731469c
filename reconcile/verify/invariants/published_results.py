"""Invariants of results and tables: N4 prefix, N5 path agreement, N6 monotonicity, N8 determinism, N9 sole writer.

Each `check_` function yields the violations in the facts, and each `Invariant` states what it checks.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from cutover.counts import count_clause, count_noun
from cutover.definition.model.pipeline import Pipeline
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.log.topic_partitions import format_partition_number
from cutover.reconcile.comparison.layout import same
from cutover.reconcile.verify.facts.facts import (
    Finals,
    Group,
    Invariant,
    LogCounts,
    Paths,
    Prefix,
    RecomputedPortion,
    Unknown,
    VerifyFacts,
    Violation,
    cap_violations,
    format_utc_time,
)
from cutover.records.reference import ResultRow, UncountedPair
from cutover.records.watermark import WatermarkState, compute_final_watermark


def check_prefix(facts: VerifyFacts) -> Iterator[Violation]:
    """Yield the (window, key) rows, ledger rows and ids that differ from the recomputed ones."""
    if isinstance(facts.prefix, Prefix):
        for portion in facts.prefix.portions:
            yield from cap_violations("N4", [*list_row_differences(portion)])
            yield from cap_violations("N4", [*compare_ledgers(portion)])
            yield from cap_violations("N4", [*compare_ids(portion)])
        for fold in facts.prefix.folds:
            texts = (f"Fold in table version {fold.version}: {text}" for text in fold.different)
            yield from cap_violations("N4", [*texts])


def describe_prefix(facts: VerifyFacts) -> str:
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


def list_prefix_notes(facts: VerifyFacts) -> Iterator[str]:
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


PREFIX = Invariant(
    name="N4",
    title="every published epoch is correct",
    check=check_prefix,
    describe_coverage=describe_prefix,
    list_notes=list_prefix_notes,
    needs=("prefix",),
)
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


def check_path_agreement(facts: VerifyFacts) -> Iterator[Violation]:
    """Yield the cells whose difference has no cause."""
    if isinstance(facts.paths, Paths):
        yield from cap_violations("N5", facts.paths.unexplained)


def describe_path_agreement(facts: VerifyFacts) -> str:
    """Describe the windows and rows of the newest comparison, and its late rows; empty without a comparison."""
    if not isinstance(facts.paths, Paths):
        return ""
    paths = facts.paths
    compared = f"{count_noun(paths.windows, 'window')}, {count_noun(paths.rows, 'row')} at epoch {paths.epoch}"
    return f"{compared}, {paths.late_rows:,} differ by late rows"


def list_path_agreement_notes(facts: VerifyFacts) -> Iterator[str]:
    """Yield how many rows acceptance rules accept, and how many windows are incomplete."""
    if isinstance(facts.paths, Paths) and facts.paths.accepted:
        rows = count_clause(facts.paths.accepted, "row", "has", "have")
        yield f"{rows} no cause and a rule that accepts this: no violation."
    if isinstance(facts.paths, Paths) and facts.paths.incomplete:
        reason = "records were lost, or their batch results are not complete"
        yield f"{count_clause(facts.paths.incomplete, 'window', 'is', 'are')} incomplete: {reason}."


PATH_AGREEMENT = Invariant(
    name="N5",
    title="stream = batch, up to named causes",
    check=check_path_agreement,
    describe_coverage=describe_path_agreement,
    list_notes=list_path_agreement_notes,
    needs=("paths",),
)
"""N5, path agreement: stream = batch, up to named causes.

At the cut of the newest batch run, under a valid seal (same log, cut, isolation, definition): for every (window, key),
batch less the stream's fold is the sum of what the causes contribute. With the same definition, the fold with the late
rows merged equals batch exactly. Only differences that an acceptance rule accepts may stay without a cause. The
reconciler evaluates this; without a valid seal the check is not provable.
"""


def check_monotonicity(facts: VerifyFacts) -> Iterator[Violation]:
    """Yield the watermarks that went back or ran ahead, and the final windows that changed."""
    yield from cap_violations("N6", [*_check_monotone(facts)])
    if facts.pipeline.stream is None:
        yield from cap_violations("N6", [*_check_bound(facts.stream, facts.records, facts.pipeline)])
    if isinstance(facts.log, LogCounts):
        yield from cap_violations("N6", [*_check_not_ahead(facts, facts.log)])
    if not isinstance(facts.reopened, Unknown):
        yield from cap_violations("N6", [*_check_reopened(facts)])
    if isinstance(facts.finals, Finals) and not _drops_nothing(facts):
        yield from cap_violations("N6", [*_check_finals(facts.finals)])


def describe_monotonicity(facts: VerifyFacts) -> str:
    """Describe how many epoch records and final windows were checked."""
    text = count_noun(len(facts.records), "epoch")
    if isinstance(facts.finals, Finals):
        text += f", {count_noun(facts.finals.windows, 'window')} final at epoch {facts.finals.epoch}"
    return text


def list_monotonicity_notes(facts: VerifyFacts) -> Iterator[str]:
    """Yield what could not be checked."""
    if isinstance(facts.finals, Unknown):
        yield facts.finals.reason
    if isinstance(facts.log, Unknown):
        yield f"The watermark was not compared with the log's timestamps: {facts.log.reason}"
    elif not facts.log.is_complete:
        yield "The watermark was compared with the log's timestamps only as far as the log was read."


def _check_monotone(facts: VerifyFacts) -> Iterator[str]:
    for record in facts.records:
        if _rank_after(record) < _rank_before(record):
            expected = f"not before {format_utc_time(record.watermark_before)}"
            yield _describe_violation(facts.stream, record, expected, record.watermark_after)
    for previous, following in pairwise(facts.records):
        judge = _find_judge(facts, previous, following)
        if judge is not previous and _rank_after(following) < _rank_after(previous):
            expected = f"not before {format_utc_time(previous.watermark_after)}"
            yield _describe_violation(facts.stream, following, expected, following.watermark_after)
        if judge is not None and following.watermark_before != judge.watermark_after:
            expected = f"to use watermark {format_utc_time(judge.watermark_after)}, that of epoch {judge.epoch}"
            yield _describe_violation(facts.stream, following, expected, following.watermark_before)


def _find_judge(facts: VerifyFacts, previous: EpochRecord, following: EpochRecord) -> EpochRecord | None:
    """Find the epoch whose watermark an epoch is judged by; None if nothing is late."""
    stream = facts.pipeline.stream
    if _drops_nothing(facts):
        return None
    has_own_judge = stream is not None and stream.single_watermark and not following.tick
    return following if has_own_judge else previous


def _drops_nothing(facts: VerifyFacts) -> bool:
    """Return whether a followed job judged no batch by a watermark."""
    return facts.pipeline.stream is not None and all(record.watermark_before is None for record in facts.records)


def _check_bound(stream: str, records: Sequence[EpochRecord], pipeline: Pipeline) -> Iterator[str]:
    for record in records:
        limit = compute_watermark_limit(record, pipeline)
        if _rank_after(record) > _rank_before(record) and (limit is None or _rank_after(record) > limit):
            expected = f"at most {format_utc_time(limit)} by its partitions"
            yield _describe_violation(stream, record, expected, record.watermark_after)


def compute_watermark_limit(record: EpochRecord, pipeline: Pipeline) -> int | None:
    """Compute the highest watermark that an epoch may commit, in microseconds; None if it may not raise it."""
    if record.final:
        state = WatermarkState(watermark=record.watermark_before, max_event=record.max_event)
        return compute_final_watermark(state, pipeline.window, pipeline.lateness)
    active = [event for p, event in record.max_event.items() if p not in record.idle]
    return min(active) - pipeline.lateness.out_of_orderness_micros if active else None


def _check_not_ahead(facts: VerifyFacts, log: LogCounts) -> Iterator[str]:
    lateness = facts.pipeline.lateness
    for record in facts.records:
        newest = log.newest.get(record.epoch)
        if newest is None or not log.is_complete or record.final:
            continue
        limit = newest + lateness.max_ahead_micros - lateness.out_of_orderness_micros
        if _rank_after(record) > max(limit, _rank_before(record)):
            expected = f"at most {format_utc_time(limit)}, by the newest log timestamp {format_utc_time(newest)}"
            yield _describe_violation(facts.stream, record, expected, record.watermark_after)


def _check_reopened(facts: VerifyFacts) -> Iterator[str]:
    if isinstance(facts.reopened, Unknown):
        return
    for window in facts.reopened:
        place = f"Window {format_utc_time(window.window_start)} of {facts.stream}"
        text = f"{place}: expected no accepted record in epoch {window.epoch}"
        yield (
            f"{text}, as watermark {format_utc_time(window.watermark)} had closed it, got "
            f"{count_noun(window.pairs, 'pair')}."
        )


def _check_finals(finals: Finals) -> Iterator[str]:
    for start in finals.changed_windows:
        text = f"Window {format_utc_time(start)}: final at epoch {finals.epoch}: expected what table version"
        yield f"{text} {finals.version} held, got another result."


def _describe_violation(stream: str, record: EpochRecord, expected: str, watermark: int | None) -> str:
    return f"Watermark of {stream}, epoch {record.epoch}: expected {expected}, got {format_utc_time(watermark)}."


_NEVER = -(2**63)


def _rank_after(record: EpochRecord) -> int:
    return _NEVER if record.watermark_after is None else record.watermark_after


def _rank_before(record: EpochRecord) -> int:
    return _NEVER if record.watermark_before is None else record.watermark_before


MONOTONICITY = Invariant(
    name="N6",
    title="watermarks and final windows never go back",
    check=check_monotonicity,
    describe_coverage=describe_monotonicity,
    list_notes=list_monotonicity_notes,
    needs=("reopened",),
    uses=("log", "finals"),
)
"""N6, monotonicity: the watermark never decreases, and final windows never change.

Each epoch is evaluated by the watermark that the previous epoch committed. The watermark rises at most to the newest
event time of the slowest active partition less the out-of-orderness (in a final drain: far enough to close all
windows), and never beyond the newest log timestamp read so far plus `max_ahead`. (N3 checks the ends that readers have
seen.) A final window stays the same: no epoch accepts a record for a window that the previous watermark had closed, so
fold(<=N) of a window that is final at N equals that of every later N. The final windows of the oldest table version
that a reconciliation saw and that can still be read are compared with the current ones.

The watermark of a followed job is its own: it may be that of its newest partition, and judge the batch that it is
planned with. A job that drops nothing has no final windows.
"""


def check_determinism(facts: VerifyFacts) -> Iterator[Violation]:
    """Yield the windows in which two runs at the same cut differ."""
    if isinstance(facts.repeated, Unknown):
        return
    for pair in facts.repeated:
        texts = (
            f"Window {format_utc_time(start)}: expected the result of batch run {pair.first_run} from {pair.second_run}"
            " at the same cut, got another one."
            for start in pair.changed_windows
        )
        yield from cap_violations("N8", [*texts])


def describe_determinism(facts: VerifyFacts) -> str:
    """Describe how many windows two runs computed at the same cut; empty if the runs are unknown."""
    if isinstance(facts.repeated, Unknown):
        return ""
    if not facts.repeated:
        return "no cut was computed twice"
    return (
        f"{count_noun(sum(pair.windows for pair in facts.repeated), 'window')} of "
        f"{count_noun(len(facts.repeated), 'pair')} of runs"
    )


DETERMINISM = Invariant(
    name="N8",
    title="same log and cut, same result",
    check=check_determinism,
    describe_coverage=describe_determinism,
    needs=("repeated",),
)
"""N8, determinism: the same log and cut give the same result.

Windows that two batch runs computed at one cut are equal (floats except for the order of their sums), whatever the
number of shuffle partitions or the order of reading. If no cut was computed twice, nothing is compared; the tests
compute one with 1, 7 and 64 partitions.
"""


def check_sole_writer(facts: VerifyFacts) -> Iterator[Violation]:
    """Yield the changes by other writers."""
    if not isinstance(facts.foreign, Unknown):
        yield from cap_violations("N9", facts.foreign)


def describe_sole_writer(facts: VerifyFacts) -> str:
    """Describe the coverage: the newest version of each table; empty if it is unknown."""
    return "" if isinstance(facts.foreign, Unknown) else "the newest version of each table"


SOLE_WRITER = Invariant(
    name="N9",
    title="only Cutover has changed rows",
    check=check_sole_writer,
    describe_coverage=describe_sole_writer,
    needs=("foreign",),
)
"""N9, sole writer: only the pipeline's paths have changed rows of its tables.

The check covers the epoch log, the batch table, its index and its ledger, dimensions in the lake and control tables.
Each listed file has a name that Cutover generated, and the weights of all files match the newest record of an epoch or
of a batch run (`foreign`). Files that another writer rewrote without changing a row are not violations. Only the newest
version of each table is read.
"""
