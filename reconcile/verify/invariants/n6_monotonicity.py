"""N6 time and finality go forward only.

The watermark never goes back, and each epoch is judged by the one that the epoch before committed. It rises to the
newest event time of the slowest active partition less the out-of-orderness and no further (a final drain: to what
closes all windows seen), and never beyond the newest log timestamp read so far plus `max_ahead`. (N3 tells whether
what readers have seen went back.) A final window stays as it is: no epoch accepts a record for a window that the
watermark before it had closed (so fold(<=N) of a window final at N is that of every later N), and what an earlier
version of the table, the oldest that a reconciliation saw and that can still be read, held in its final windows is
held now.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from cutover.definition.model.pipeline import Pipeline
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.reconcile.verify.facts.facts import Finals, LogCounts, VerifyFacts
from cutover.reconcile.verify.model import Unknown, Violation, cap_violations, moment
from cutover.records.watermark import WatermarkState, final_watermark

TITLE = "time and finality go forward only"


def check(facts: VerifyFacts) -> Iterator[Violation]:
    """Yield where time went back, ran ahead, or a final window changed."""
    yield from cap_violations("N6", [*_check_monotone(facts.stream, facts.records)])
    yield from cap_violations("N6", [*_check_bound(facts.stream, facts.records, facts.pipeline)])
    if isinstance(facts.log, LogCounts):
        yield from cap_violations("N6", [*_check_not_ahead(facts, facts.log)])
    if not isinstance(facts.reopened, Unknown):
        yield from cap_violations("N6", [*_check_reopened(facts)])
    if isinstance(facts.finals, Finals):
        yield from cap_violations("N6", [*_check_finals(facts.finals)])


def describe_coverage(facts: VerifyFacts) -> str:
    """Epoch records, and windows that were final at an epoch."""
    text = f"{len(facts.records):,} epochs"
    if isinstance(facts.finals, Finals):
        text += f", {facts.finals.windows:,} windows final at epoch {facts.finals.epoch}"
    return text


def notes(facts: VerifyFacts) -> Iterator[str]:
    """Yield what could not be compared."""
    if isinstance(facts.finals, Unknown):
        yield facts.finals.why
    if isinstance(facts.log, Unknown):
        yield f"The watermark was not held against the log's timestamps: {facts.log.why}"
    elif not facts.log.whole:
        yield "The watermark was held against the log's timestamps only as far as the log was read."


def _check_monotone(stream: str, records: Sequence[EpochRecord]) -> Iterator[str]:
    for record in records:
        if _after(record) < _before(record):
            yield _text(stream, record, f"not before {moment(record.watermark_before)}", record.watermark_after)
    for before, after in pairwise(records):
        if after.watermark_before != before.watermark_after:
            wanted = f"to judge by {moment(before.watermark_after)}, that of epoch {before.epoch}"
            yield _text(stream, after, wanted, after.watermark_before)


def _check_bound(stream: str, records: Sequence[EpochRecord], pipeline: Pipeline) -> Iterator[str]:
    for record in records:
        bound = limit(record, pipeline)
        if _after(record) > _before(record) and (bound is None or _after(record) > bound):
            yield _text(stream, record, f"at most {moment(bound)} by its partitions", record.watermark_after)


def limit(record: EpochRecord, pipeline: Pipeline) -> int | None:
    """Return how far an epoch may raise the watermark, microseconds; None: not at all."""
    if record.final:
        state = WatermarkState(watermark=record.watermark_before, max_event=record.max_event)
        return final_watermark(state, pipeline.window, pipeline.lateness)
    active = [event for p, event in record.max_event.items() if p not in record.idle]
    return min(active) - pipeline.lateness.out_of_orderness_micros if active else None


def _check_not_ahead(facts: VerifyFacts, log: LogCounts) -> Iterator[str]:
    lateness = facts.pipeline.lateness
    for record in facts.records:
        newest = log.newest.get(record.epoch)
        if newest is None or not log.whole or record.final:
            continue
        bound = newest + lateness.max_ahead_micros - lateness.out_of_orderness_micros
        if _after(record) > max(bound, _before(record)):
            wanted = f"at most {moment(bound)}, by the newest log timestamp {moment(newest)}"
            yield _text(facts.stream, record, wanted, record.watermark_after)


def _check_reopened(facts: VerifyFacts) -> Iterator[str]:
    if isinstance(facts.reopened, Unknown):
        return
    for one in facts.reopened:
        text = f"Window {moment(one.window_start)} of {facts.stream}: expected no accepted record in epoch {one.epoch}"
        yield f"{text}, as watermark {moment(one.watermark)} had closed it, got {one.pairs:,} pairs."


def _check_finals(finals: Finals) -> Iterator[str]:
    for start in finals.changed:
        text = f"Window {moment(start)}: final at epoch {finals.epoch}: expected what table version"
        yield f"{text} {finals.version} held, got another result."


def _text(stream: str, record: EpochRecord, wanted: str, found: int | None) -> str:
    return f"Watermark of {stream}, epoch {record.epoch}: expected {wanted}, got {moment(found)}."


_NEVER = -(2**63)


def _after(record: EpochRecord) -> int:
    return _NEVER if record.watermark_after is None else record.watermark_after


def _before(record: EpochRecord) -> int:
    return _NEVER if record.watermark_before is None else record.watermark_before
