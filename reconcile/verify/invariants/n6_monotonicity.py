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

from collections.abc import Iterator, Sequence
from itertools import pairwise

from cutover.counts import count_noun
from cutover.definition.model.pipeline import Pipeline
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.reconcile.verify.facts.facts import Finals, LogCounts, VerifyFacts
from cutover.reconcile.verify.model import Unknown, Violation, cap_violations, format_utc_time
from cutover.records.watermark import WatermarkState, compute_final_watermark

TITLE = "watermarks and final windows never go back"


def check(facts: VerifyFacts) -> Iterator[Violation]:
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


def describe_coverage(facts: VerifyFacts) -> str:
    """Describe how many epoch records and final windows were checked."""
    text = count_noun(len(facts.records), "epoch")
    if isinstance(facts.finals, Finals):
        text += f", {count_noun(facts.finals.windows, 'window')} final at epoch {facts.finals.epoch}"
    return text


def notes(facts: VerifyFacts) -> Iterator[str]:
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
