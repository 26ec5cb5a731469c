"""Alerts on the log after the newest epoch, and on the records that the epochs read.

The log: records lost or soon to be lost, partitions, open transactions. Records: shares of a class beyond the policy, a
changed schema, a key with most of the records.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

from cutover.counts import count_clause, count_noun
from cutover.definition.model.policy import Policy
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.reconcile.result.text import duration, format_number, share
from cutover.reconcile.watch.facts import (
    AlertSpec,
    LagSample,
    Rule,
    UnknownFact,
    WatchFacts,
    compute_reported_seconds,
    require,
)
from cutover.records.classes import Class

OUTAGES = 2
"""Longest outages that the log must outlast."""


def _find_other_topic(facts: WatchFacts) -> Iterator[str]:
    sample, newest = facts.sample, facts.newest_epoch
    if sample is not None and newest is not None and _is_other_topic(sample, newest):
        yield f"topic {newest.topic} has topic id {sample.topic_id}, the newest epoch was read from {newest.topic_id}"


def _is_other_topic(sample: LagSample, newest: EpochRecord) -> bool:
    return sample.topic_id is not None and sample.topic_id != newest.topic_id


def _find_sample(facts: WatchFacts) -> LagSample | None:
    """Return the newest sample of the topic that the stream reads; None if there is none or it is another topic now."""
    sample, newest = facts.sample, facts.newest_epoch
    return None if sample is None or newest is None or _is_other_topic(sample, newest) else sample


def _find_lost_records(facts: WatchFacts) -> Iterator[str]:
    sample = _find_sample(facts)
    if sample is None:
        return
    for texts in (facts.compacted_topics, facts.lossy_epochs):
        if not isinstance(texts, UnknownFact):
            yield from texts
    if not isinstance(facts.rewritten_partitions, UnknownFact) and facts.rewritten_partitions:
        yield from facts.rewritten_partitions
        return
    yield from _find_lost_offsets(facts, sample)
    for fact in (facts.rewritten_partitions, facts.compacted_topics, facts.lossy_epochs):
        require(fact)  # without it no one knows that nothing was lost


def _find_lost_offsets(facts: WatchFacts, sample: LagSample) -> Iterator[str]:
    for p, offset in sorted(require(facts.next_offsets).items()):
        start = sample.start_offsets.get(p, offset)
        end = max(sample.high_watermarks.get(p, offset), sample.end_offsets.get(p, 0))
        position = f"{facts.format_partition(p)}: offset {offset} is next"
        if p not in sample.end_offsets:
            yield f"{position}, the partition does not exist"
        elif start > offset:
            yield f"{position}, the log starts at {start}: {format_number(start - offset)} are lost"
        elif end < offset:
            yield f"{position}, the log ends at {end}: {format_number(offset - end)} are lost"


def _find_new_partitions(facts: WatchFacts) -> Iterator[str]:
    """Yield the partitions that a recent epoch, or the one before these, had not read yet."""
    sample, epochs = _find_sample(facts), require(facts.epochs)
    if sample is None:
        return
    first_index = max(0, len(epochs) - len(tuple(facts.list_recent_epochs())) - 1)
    added = sorted({p for epoch in epochs[first_index:] for p in sample.end_offsets if p not in epoch.end})
    if added:
        partitions = "; ".join(map(facts.format_partition, added))
        yield f"new: {partitions}. The log has {len(sample.end_offsets)} partitions now"


def _find_open_transactions(facts: WatchFacts) -> Iterator[str]:
    """Yield which partition an open transaction holds, timed by the driver or by our own samples."""
    sample = _find_sample(facts)
    if sample is None:
        return
    for p, high in sorted(sample.high_watermarks.items()):
        stable = sample.end_offsets.get(p, high)
        if stable >= high:
            continue
        held_seconds = max(_measure_reported_seconds(facts, p), _measure_sampled_seconds(facts, p))
        if held_seconds > facts.limits.open_seconds:
            waiting = f"{count_clause(high - stable, 'offset', 'waits', 'wait')} behind an open transaction"
            place = facts.format_partition(p)
            yield f"{place} has been held at offset {stable} for {duration(held_seconds)}: {waiting}"


def _measure_reported_seconds(facts: WatchFacts, partition: int) -> float:
    """Return the seconds for which the driver has seen a transaction hold a partition; 0 if it reports none."""
    driver = facts.driver
    if isinstance(driver, UnknownFact) or not driver.alive:
        return 0.0
    return compute_reported_seconds(driver, driver.open_since.get(str(partition)), facts.at)


def _measure_sampled_seconds(facts: WatchFacts, partition: int) -> float:
    """Return the seconds for which our own samples have shown the same last stable offset below the end."""
    newest = facts.samples[-1]
    first_seen = newest.monotonic
    for sample in reversed(facts.samples):
        stable = sample.end_offsets.get(partition, 0)
        if stable != newest.end_offsets[partition] or stable >= sample.high_watermarks.get(partition, 0):
            break
        first_seen = sample.monotonic
    return newest.monotonic - first_seen


def _find_low_retention(facts: WatchFacts) -> Iterator[str]:
    """Yield the partition whose unread records are deleted soonest, if that is too soon."""
    sample = _find_sample(facts)
    if sample is None:
        return
    required = OUTAGES * timedelta(seconds=facts.limits.outage_seconds) + (facts.replay_time or timedelta())
    estimates = {p: _estimate_time_left(facts, sample, p) for p in sample.end_offsets}
    time_left = {p: time for p, time in estimates.items() if time is not None}
    if not time_left:
        return
    p = min(time_left, key=lambda p: time_left[p])
    if time_left[p] < required:
        remaining = duration(max(0.0, time_left[p].total_seconds()))
        yield (
            f"{facts.format_partition(p)}: {remaining} until unread records are deleted, "
            f"{duration(required.total_seconds())} are needed"
        )


def _estimate_time_left(facts: WatchFacts, sample: LagSample, partition: int) -> timedelta | None:
    """Estimate when the first unread record is deleted, by its age or by the pace at which the log's start moves."""
    estimates = []
    retention = require(facts.retention)
    if retention is not None:
        age = sample.at.timestamp() - sample.first_unread_times.get(partition, sample.at.timestamp() * 1e6) / 1e6
        estimates.append(retention - timedelta(seconds=age))
    same_log = [earlier for earlier in facts.samples if earlier.topic_id == sample.topic_id]
    headroom = max(0, require(facts.next_offsets).get(partition, 0) - sample.start_offsets.get(partition, 0))
    by_pace = _estimate_by_pace(same_log, partition, headroom)
    return min([*estimates, *([] if by_pace is None else [by_pace])], default=None)


def _estimate_by_pace(samples: Sequence[LagSample], partition: int, headroom: int) -> timedelta | None:
    """Estimate the time in which the log's start moves over `headroom` offsets; None if the pace is unknown.

    Retention deletes whole segments, so the start moves in jumps. The pace is what was deleted between the first and
    the last observed jump. A single jump has no known pace. It counts only where another one of the same size would
    reach unread records: it may follow as soon as the first one did.
    """
    starts = [sample.start_offsets.get(partition, 0) for sample in samples]
    jumps = [n for n in range(1, len(starts)) if starts[n] > starts[n - 1]]
    if not jumps:
        return None
    begin, end = jumps[0], jumps[-1]
    if begin == end:
        if headroom > starts[end] - starts[0]:
            return None
        begin, end = 0, len(samples) - 1
    deleted, seconds = starts[end] - starts[begin], samples[end].monotonic - samples[begin].monotonic
    return timedelta(seconds=headroom / deleted * seconds) if deleted > 0 and seconds > 0 else None


LOG_ALERTS = (
    AlertSpec(
        name="LogDataLost",
        severity="page",
        owner="pipeline",
        symptom="`expected offset 40, log starts at 60`",
        rule=_find_lost_records,
        suppresses=("StreamNotRunning", "ReconcilerNotRunning", "BatchNotFresh", "NotComparable"),
    ),
    AlertSpec(
        name="TopicIdentityChanged",
        severity="page",
        owner="pipeline",
        symptom="`has topic id B, the epoch log was built from A`",
        rule=_find_other_topic,
        suppresses=("StreamNotRunning", "ReconcilerNotRunning", "BatchNotFresh", "NotComparable"),
    ),
    AlertSpec(
        name="RetentionHeadroomLow",
        severity="ticket",
        owner="platform",
        symptom="unread records are soon deleted from the log",
        rule=_find_low_retention,
        limits=("alerts.outage_seconds",),
    ),
    AlertSpec(
        name="OpenTransactionHoldsLog",
        severity="ticket",
        owner="platform",
        symptom="a partition stays at one offset, although the log has more",
        rule=_find_open_transactions,
        limits=("alerts.open_seconds",),
    ),
    AlertSpec(
        name="PartitionsChanged",
        severity="info",
        owner="pipeline",
        symptom="the topic has more partitions",
        rule=_find_new_partitions,
        limits=("alerts.rate_seconds",),
    ),
)


EPOCHS_IN_A_ROW = 10
"""Large epochs in a row in which one key must have most of the records before it counts as skew."""


def _limit_share(record_class: Class, max_share: Callable[[Policy], float]) -> Rule:
    """Build a rule on the share of a class in the records of the last minutes (`alerts.rate_seconds`)."""

    def find_excess(facts: WatchFacts) -> Iterator[str]:
        count, total, unit = _count_class(facts, record_class)
        limit = max_share(facts.pipeline.policy)
        if total and count / total > limit:
            period = duration(facts.limits.rate_seconds)
            part = f"{share(count / total)} of {format_number(total)} {unit} in {period} are {record_class}"
            yield f"{part}, the policy allows {share(limit)}"

    return find_excess


def _count_class(facts: WatchFacts, record_class: Class) -> tuple[float, int, str]:
    """Return how many are of a class, of how many in total, and their unit.

    A record counts once per window that it is assigned to, unless it is malformed; late ones remain pairs, since only
    some of a record's windows may be closed.
    """
    counts: Counter[str] = Counter()
    records = 0
    for epoch in facts.list_recent_epochs():
        counts.update(epoch.counts)
        records += epoch.records
    windows_per_record = facts.pipeline.window.max_windows
    if record_class is Class.LATE:
        unit = "records" if windows_per_record == 1 else "(record, window) pairs"
        return counts[Class.LATE], counts[Class.LATE] + counts[Class.ACCEPTED], unit
    if record_class is Class.MALFORMED:
        return counts[Class.MALFORMED], records, "records"
    return counts[record_class] / windows_per_record, records, "records"


def _find_mostly_filtered(facts: WatchFacts) -> Iterator[str]:
    """Yield that the filter leaves out nearly every record of the last minutes, or of the newest hundred if longer.

    Filtered records are normal, unlike the other classes, so the share of a few records means nothing.
    """
    total = filtered = 0
    ages = facts.epoch_ages
    for epoch in reversed(require(facts.epochs)):
        if ages.get(epoch.epoch, 0.0) > facts.limits.rate_seconds and total >= facts.limits.filtered_records:
            break
        total += epoch.records
        filtered += epoch.counts.get(Class.FILTERED, 0)
    limit = facts.pipeline.policy.max_filtered_share
    if total >= facts.limits.filtered_records and filtered / total > limit:
        part = f"{format_number(filtered)} of the newest {count_noun(total, 'record')} filtered"
        yield f"{part} ({share(filtered / total)}), the policy allows {share(limit)}"


def _find_schema_mismatches(facts: WatchFacts) -> Iterator[str]:
    mismatches = require(facts.schema_mismatches)
    if mismatches:
        yield "; ".join(
            f"{m.description}, first at {facts.format_partition(m.partition)}, offset {m.offset}" for m in mismatches
        )


def _find_key_skew(facts: WatchFacts) -> Iterator[str]:
    """Yield that one key had most of the accepted records in each of the newest large epochs."""
    limits = facts.limits
    large = [e for e in require(facts.epochs) if e.counts.get(Class.ACCEPTED, 0) >= limits.one_key_records]
    shares = [epoch.one_key_share or 0.0 for epoch in large[-EPOCHS_IN_A_ROW:]]
    if len(shares) == EPOCHS_IN_A_ROW and min(shares) > limits.one_key_share:
        yield f"one key had {share(min(shares))} or more of {EPOCHS_IN_A_ROW} epochs in a row"


RECORD_ALERTS = (
    AlertSpec(
        name="LateRateHigh",
        severity="ticket",
        owner="producers",
        symptom="verdict EXPLAINED, beyond policy",
        rule=_limit_share(Class.LATE, lambda policy: policy.max_late_share),
        limits=("policy.max_late_share", "alerts.rate_seconds"),
    ),
    AlertSpec(
        name="MalformedRateHigh",
        severity="ticket",
        owner="producers",
        symptom="more than 1 % of the newest records malformed",
        rule=_limit_share(Class.MALFORMED, lambda policy: policy.max_malformed_share),
        limits=("policy.max_malformed_share", "alerts.rate_seconds"),
    ),
    AlertSpec(
        name="FutureEvents",
        severity="ticket",
        owner="producers",
        symptom="events dated ahead of their log timestamp",
        rule=_limit_share(Class.FUTURE, lambda policy: policy.max_future_share),
        limits=("policy.max_future_share", "alerts.rate_seconds"),
    ),
    AlertSpec(
        name="DuplicateRateHigh",
        severity="ticket",
        owner="producers",
        symptom="many records were sent twice",
        rule=_limit_share(Class.DUPLICATE, lambda policy: policy.max_duplicate_share),
        limits=("policy.max_duplicate_share", "alerts.rate_seconds"),
    ),
    AlertSpec(
        name="FilteredRateHigh",
        severity="ticket",
        owner="pipeline",
        symptom="the filter leaves out nearly every record",
        rule=_find_mostly_filtered,
        limits=("policy.max_filtered_share", "alerts.filtered_records", "alerts.rate_seconds"),
    ),
    AlertSpec(
        name="SchemaChanged",
        severity="ticket",
        owner="producers",
        symptom="records with unknown fields",
        rule=_find_schema_mismatches,
    ),
    AlertSpec(
        name="KeySkewHigh",
        severity="ticket",
        owner="pipeline",
        symptom="one key has most of the records",
        rule=_find_key_skew,
        limits=("alerts.one_key_share", "alerts.one_key_records"),
    ),
)
