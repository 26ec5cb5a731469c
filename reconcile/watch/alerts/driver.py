"""Alerts on the driver, and on the log after the newest epoch.

Driver: it ended, it commits nothing, the broker is silent, its clock or its commits are off. Log: records lost or soon
to be lost, partitions, open transactions.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import takewhile

from cutover.counts import count_clause
from cutover.driver_state import DriverState
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.reconcile.result.text import duration, format_number
from cutover.reconcile.watch.facts import (
    AlertSpec,
    LagSample,
    UnknownFact,
    WatchFacts,
    compute_reported_seconds,
    reported_by,
    require,
    seconds_since,
)
from cutover.recorded_times import CLOCKS_APART
from cutover.timestamps import parse_duration

MISSED_TRIGGERS = 3
"""Triggers without a commit that are still normal."""


def _find_stalled_stream(facts: WatchFacts) -> Iterator[str]:
    """Yield that records are unread and nothing is committed; a driver that failed reports its own reason."""
    driver, limits = require(facts.driver), facts.limits
    if driver.state == "FAILED" or (driver.alive and facts.pipeline.stream is not None):
        return  # what a job has not read yet, its follower cannot repeat
    stalled_seconds = _measure_stall(facts)
    if stalled_seconds > max(MISSED_TRIGGERS * facts.trigger_seconds, limits.stalled_seconds):
        subject = f"driver {driver.state}" if driver.alive else "no driver lives"
        yield f"{subject}, records are unread and nothing was committed for {duration(stalled_seconds)}"


def _measure_stall(facts: WatchFacts) -> float:
    """Return the seconds for which records were unread without a commit, by the driver or by our own samples."""
    driver, newest = require(facts.driver), facts.newest_epoch
    if newest is None:
        unread_since = driver.unread_since if driver.alive else driver.at
        return (
            compute_reported_seconds(driver, unread_since, facts.at)
            if require(facts.unread_before_first_epoch)
            else 0.0
        )
    sample = facts.sample
    if sample is None or not sample.unread:
        return 0.0
    if driver.alive:
        reported_seconds = compute_reported_seconds(driver, driver.unread_since, facts.at)
    else:
        reported_seconds = _measure_absence(driver, newest, facts.at)
    return max(reported_seconds, _measure_unread_seconds(facts.samples))


def _measure_absence(driver: DriverState, newest: EpochRecord, now: datetime) -> float:
    """Return the seconds for which there has been no driver; at least, if the latest one ran on another host.

    The heartbeat in our files shows it exactly, unless another driver committed the newest epoch after this one was
    stopped.
    """
    is_elsewhere = driver.state == "STOPPED" and (driver.epoch is None or driver.epoch < newest.epoch)
    if driver.at is not None and not is_elsewhere:
        return compute_reported_seconds(driver, driver.at, now)
    age = seconds_since(newest.processing_time, now) or 0.0
    return max(0.0, age - CLOCKS_APART.total_seconds())


def _measure_unread_seconds(samples: Sequence[LagSample]) -> float:
    """Return the seconds for which our own samples have shown unread records after the same epoch."""
    newest = samples[-1]
    stalled = takewhile(lambda s: s.unread > 0 and s.epoch.epoch == newest.epoch.epoch, reversed(samples))
    return newest.monotonic - min(sample.monotonic for sample in stalled)


def _find_stopped_job(facts: WatchFacts) -> Iterator[str]:
    """Yield that a followed job makes no batches although it has unread records, for longer than it takes otherwise.

    Its follower reports both; while no follower lives, no one knows what the job does.
    """
    driver, stated = require(facts.driver), facts.pipeline.policy.job_reads_within
    if facts.pipeline.stream is None or not driver.alive or driver.job_unread_since is None:
        return
    allowed_seconds = driver.job_silence
    if stated is not None:
        allowed_seconds = parse_duration(stated, of="policy.job_reads_within") / 1e6
    elif allowed_seconds is not None:
        allowed_seconds = max(allowed_seconds, facts.limits.job_silent_seconds)
    waited_seconds = compute_reported_seconds(driver, driver.job_unread_since, facts.at)
    if allowed_seconds is not None and waited_seconds > allowed_seconds:
        newest = facts.newest_epoch
        after = "" if newest is None or newest.job_batch is None else f" after batch {newest.job_batch}"
        limit = f"at most {duration(allowed_seconds)} {'by its earlier batches' if stated is None else 'by the policy'}"
        yield f"the job has unread records and made no batch{after} for {duration(waited_seconds)}, {limit}"


def _find_silent_broker(facts: WatchFacts) -> Iterator[str]:
    driver = facts.driver
    driver_seconds = 0.0
    if not isinstance(driver, UnknownFact) and driver.alive:
        driver_seconds = compute_reported_seconds(driver, driver.silent_since, facts.at)
    silent_seconds = max(driver_seconds, facts.silent_seconds or 0.0)
    if silent_seconds > facts.limits.silent_seconds:
        yield f"no answer from the broker for {duration(silent_seconds)}"


def _find_commit_conflicts(facts: WatchFacts) -> Iterator[str]:
    conflicts = sum(epoch.conflicts for epoch in facts.list_recent_epochs())
    if conflicts > facts.limits.conflicts:
        commits = count_clause(int(conflicts), "commit", "was", "were")
        yield f"{commits} refused in {duration(facts.limits.rate_seconds)}"


def _find_clock_skew(facts: WatchFacts) -> Iterator[str]:
    """Yield that clocks differ, unless the definition takes log time from the records, as a replay does."""
    driver = require(facts.driver)
    if facts.pipeline.source.log_time is not None or not driver.alive or not driver.skew:
        return
    partition, skew = max(driver.skew.items(), key=lambda item: abs(item[1]))
    if abs(skew) > facts.limits.skew_seconds:
        side = "behind" if skew > 0 else "ahead of"
        place = facts.format_partition(int(partition))
        yield f"{place}: new log timestamps are {duration(abs(skew))} {side} the driver's clock"


DRIVER_ALERTS = (
    AlertSpec(
        name="StreamFenced",
        severity="page",
        owner="pipeline",
        symptom="`epoch 41 was committed by another driver`",
        rule=reported_by(lambda facts: facts.driver),
        suppresses=("StreamNotRunning",),
    ),
    AlertSpec(
        name="SchemaRegistryUnusable",
        severity="page",
        owner="platform",
        symptom="`Schema registry ...: expected a schema, got no answer`",
        rule=reported_by(lambda facts: facts.driver),
        suppresses=("StreamNotRunning",),
        no_drill="the drill StreamNotRunning covers a driver that ends",
    ),
    AlertSpec(
        name="StreamNotRunning",
        severity="page",
        owner="pipeline",
        symptom="a driver ended, or commits nothing",
        rule=_find_stalled_stream,
        limits=("alerts.stalled_seconds",),
        suppresses=("KafkaUnreachable", "NoInput", "WatermarkHeld", "BatchNotFresh", "ReconcilerNotRunning"),
    ),
    AlertSpec(
        name="FollowedJobBroken",
        severity="page",
        owner="pipeline",
        symptom="`Checkpoint ...: expected the query ..., got ...: the checkpoint was replaced`",
        rule=reported_by(lambda facts: facts.driver),
        suppresses=("StreamNotRunning", "BatchNotFresh", "ReconcilerNotRunning"),
    ),
    AlertSpec(
        name="FollowedJobStopped",
        severity="page",
        owner="pipeline",
        symptom="a followed job makes no batches and has unread records",
        rule=_find_stopped_job,
        limits=("policy.job_reads_within", "alerts.job_silent_seconds"),
    ),
    # It does not suppress StreamNotRunning, the page that it leads to: no alert suppresses a more urgent one.
    AlertSpec(
        name="KafkaUnreachable",
        severity="ticket",
        owner="platform",
        symptom="`expected a broker, the connection was refused`, or `expected an answer within 8 s`",
        rule=_find_silent_broker,
        limits=("alerts.silent_seconds",),
        suppresses=("NoInput", "OpenTransactionHoldsLog", "BatchNotFresh", "ReconcilerNotRunning"),
    ),
    AlertSpec(
        name="CommitConflictRateHigh",
        severity="ticket",
        owner="pipeline",
        symptom="`was rejected 3 times`, or many lines `commit_conflict`",
        rule=_find_commit_conflicts,
        limits=("alerts.conflicts", "alerts.rate_seconds"),
        no_drill="a conflict needs a rewrite by another process inside the milliseconds of a commit; the fault F25 of "
        "`make faults` forces it",
    ),
    AlertSpec(
        name="ClockSkew",
        severity="ticket",
        owner="platform",
        symptom="log timestamps far from the driver's clock",
        rule=_find_clock_skew,
        limits=("alerts.skew_seconds",),
        no_drill="a wrong clock is corrected outside of Cutover; the fault F17 of `make faults` causes it",
    ),
)


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
