"""Alerts on the driver and on event time.

Driver: it ended, it commits nothing, the broker is silent, its clock or its commits are off. Event time: the watermark
is ahead of the log, does not move while records are read, or has no input.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import takewhile

from cutover.counts import count_clause
from cutover.driver_state import DriverState
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.reconcile.result.text import duration
from cutover.reconcile.watch.facts import (
    AlertSpec,
    LagSample,
    UnknownFact,
    WatchFacts,
    compute_max_ahead_micros,
    compute_reported_seconds,
    find_holding_partition,
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


def _is_open(facts: WatchFacts) -> bool:
    """Return whether event time can advance: there is an epoch, and the newest one did not seal the version."""
    return facts.newest_epoch is not None and not facts.newest_epoch.final


def _find_watermark_ahead(facts: WatchFacts) -> Iterator[str]:
    """Yield that no valid record can have moved the watermark so far, even where `max_ahead` allows any event time."""
    if not _is_open(facts):
        return
    sample = facts.sample
    watermark = None if facts.newest_epoch is None else facts.newest_epoch.watermark_after
    if sample is None or watermark is None or not sample.newest_times:
        return
    ahead = watermark - max(sample.newest_times.values())
    if ahead > compute_max_ahead_micros(facts.pipeline, facts.limits):
        yield f"the watermark is {duration(ahead / 1e6)} ahead of the newest log timestamp"


def _find_held_watermark(facts: WatchFacts) -> Iterator[str]:
    """Yield which partition holds the watermark, timed from the first epoch with records that did not move it."""
    if not _is_open(facts) or facts.pipeline.stream is not None:  # a job's watermark is that of its newest partition
        return
    epochs = require(facts.epochs)
    newest = epochs[-1]
    unmoved = list(takewhile(lambda e: e.watermark_after == newest.watermark_after, reversed(epochs)))
    # The oldest of them moved the watermark to its value, unless there is no watermark yet.
    reading = [e for e in unmoved if e.records and (newest.watermark_after is None or e is not unmoved[-1])]
    if not reading or _measure_age(reading[0], facts) > facts.limits.held_seconds:
        return
    held_seconds = _measure_age(reading[-1], facts)
    if held_seconds > facts.limits.held_seconds:
        yield f"records are read and the watermark has not moved for {duration(held_seconds)}{_describe_holder(facts)}"


def _describe_holder(facts: WatchFacts) -> str:
    if not isinstance(facts.sample_fact, LagSample):
        return ""  # the log does not answer, so the partitions are unknown
    partition = find_holding_partition(facts.sample_fact)
    if partition is None:
        return ": no partition had a valid event time yet"
    return f": {facts.format_partition(partition)} holds it"


def _measure_age(epoch: EpochRecord, facts: WatchFacts) -> float:
    return facts.epoch_ages.get(epoch.epoch, 0.0)


def _find_idle_input(facts: WatchFacts) -> Iterator[str]:
    """Yield that everything is read and nothing was sent for the definition's idle time."""
    if not _is_open(facts):
        return
    sample = facts.sample
    if sample is None or _has_unread(sample):
        return
    quiet_seconds = facts.quiet_seconds
    if quiet_seconds is not None and quiet_seconds * 1e6 > facts.pipeline.lateness.idle_after_micros:
        yield f"nothing was sent for {duration(quiet_seconds)}"


def _has_unread(sample: LagSample) -> bool:
    """Return whether a partition has records after the newest epoch, those of open transactions included."""
    ends = {p: max(end, sample.high_watermarks.get(p, 0)) for p, end in sample.end_offsets.items()}
    return any(end > sample.epoch.end.get(p, 0) for p, end in ends.items())


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

EVENT_TIME_ALERTS = (
    AlertSpec(
        name="WatermarkAheadOfClock",
        severity="page",
        owner="producers",
        symptom="watermark AHEAD_OF_CLOCK",
        rule=_find_watermark_ahead,
        limits=("lateness.max_ahead", "alerts.ahead_seconds"),
        no_drill="its fix is another definition, which a person must choose; the control of F12 of `make faults` "
        "causes it",
    ),
    AlertSpec(
        name="WatermarkHeld",
        severity="ticket",
        owner="producers",
        symptom="watermark HELD_BY a partition",
        rule=_find_held_watermark,
        limits=("alerts.held_seconds",),
        suppresses=("NoInput",),
    ),
    AlertSpec(
        name="NoInput",
        severity="info",
        owner="producers",
        symptom="watermark NO_INPUT",
        rule=_find_idle_input,
        limits=("lateness.idle_after",),
    ),
)
