"""Alerts on event time, on records, and on results and tables.

Event time: the watermark is ahead of the log, does not move, or has no input. Records: shares of a class beyond the
policy, a changed schema, a key with most of the records. Results: what comparisons, checks and audits found, and their
ages. Tables: damaged or changed by another writer, growing, short of space, files of pins at risk.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import takewhile

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
    compute_max_ahead_micros,
    find_holding_partition,
    reported_by,
    require,
)
from cutover.records.classes import Class

GIB = 1 << 30


def _find_regression(facts: WatchFacts) -> Iterator[str]:
    regression = require(facts.regression)
    if regression is not None:
        rows = f"{count_noun(regression.rows, '(window, key) row')} of final windows"
        audit = f"an audit at {regression.at}, epoch {regression.epoch}"
        yield f"{audit}, found {rows} whose values differ from the log, such as {regression.example}"


def _find_old_audit(facts: WatchFacts) -> Iterator[str]:
    audit = require(facts.audit_freshness)
    if audit is None:
        return
    age = audit.compute_minimum_age(facts.at)
    if age > audit.schedule * facts.limits.audit_schedules:
        schedule = duration(audit.schedule.total_seconds())
        yield f"in KAPPA, and no audit was conclusive for {duration(age.total_seconds())}, its schedule is {schedule}"


def _find_old_batch(facts: WatchFacts) -> Iterator[str]:
    batch = require(facts.batch_freshness)
    if batch is None:
        return
    age = batch.compute_minimum_age(facts.at)
    if age > batch.schedule * facts.limits.batch_schedules:
        schedule = duration(batch.schedule.total_seconds())
        yield f"no batch run for {duration(age.total_seconds())}, its schedule is {schedule}"


def _find_old_verdict(facts: WatchFacts) -> Iterator[str]:
    verdict = require(facts.verdict_freshness)
    if verdict is None:
        return
    age = verdict.compute_minimum_age(facts.at)
    if age > verdict.schedule * facts.limits.reconcile_schedules:
        schedule = duration(verdict.schedule.total_seconds())
        yield (
            f"no verdict at the newest cut for {duration(age.total_seconds())}, the batch path's schedule is {schedule}"
        )


def _find_low_disks(facts: WatchFacts) -> Iterator[str]:
    grown = 0 if isinstance(facts.recent_growth_bytes, UnknownFact) else facts.recent_growth_bytes
    required = max(grown, facts.limits.free_bytes)
    for place, free in require(facts.free_bytes).items():
        if free < required:
            yield f"{free / GIB:.2f} GiB are free at the {place}, {required / GIB:.2f} are needed"
    require(facts.recent_growth_bytes)  # without it no one knows that the space is enough


def _find_fast_growth(facts: WatchFacts) -> Iterator[str]:
    """Yield that the epoch log grows much faster than usual: new keys, smaller windows, rows of single records."""
    growth, limits = require(facts.row_growth), facts.limits
    if growth is None or growth.hours < limits.growth_hours:
        return
    if growth.last_hour > max(limits.growth_times * growth.usual, limits.growth_rows):
        usual = format_number(round(growth.usual))
        factor = f"{growth.last_hour / growth.usual:.1f} times the {usual} of a usual hour of this week"
        yield f"{count_clause(growth.last_hour, 'row', 'was', 'were')} added in the last hour, {factor}"


def _find_pins_at_risk(facts: WatchFacts) -> Iterator[str]:
    for pin in require(facts.pins):
        if pin.files_until is not None and pin.files_until < pin.expires_at:
            deletable_at = f"{pin.files_until:%Y-%m-%d %H:%M}"
            yield f"{pin.holder} holds epoch {pin.epoch}, its files may be deleted from {deletable_at} UTC"


RESULT_ALERTS = (
    AlertSpec(
        name="InvariantBroken",
        severity="page",
        owner="pipeline",
        symptom="`cutover verify`: a check is violated",
        rule=reported_by(lambda facts: facts.violated_checks),
    ),
    AlertSpec(
        name="RetirementRegression",
        severity="page",
        owner="pipeline",
        symptom="in KAPPA an audit found rows whose values differ from the log",
        rule=_find_regression,
    ),
    AlertSpec(
        name="DivergenceUnexplained",
        severity="page",
        owner="pipeline",
        symptom="verdict DIVERGED",
        rule=reported_by(lambda facts: facts.comparison_problems),
    ),
    AlertSpec(
        name="SealBroken",
        severity="ticket",
        owner="pipeline",
        symptom="verdict NOT_COMPARABLE, fingerprints, isolation or a setting in force differ",
        rule=reported_by(lambda facts: facts.comparison_problems),
        suppresses=("NotComparable", "ReconcilerNotRunning"),
    ),
    AlertSpec(
        name="NotComparable",
        severity="ticket",
        owner="pipeline",
        symptom="verdict NOT_COMPARABLE",
        rule=reported_by(lambda facts: facts.comparison_problems),
    ),
    AlertSpec(
        name="JobTableUnusable",
        severity="ticket",
        owner="pipeline",
        symptom="`Table of the batch job, ...: expected a position`",
        rule=reported_by(lambda facts: facts.comparison_problems),
        suppresses=("NotComparable", "ReconcilerNotRunning"),
    ),
    AlertSpec(
        name="ReconcilerNotRunning",
        severity="ticket",
        owner="pipeline",
        symptom="no verdict at the newest cut for two schedules",
        rule=_find_old_verdict,
        limits=("alerts.reconcile_schedules",),
    ),
    AlertSpec(
        name="BatchNotFresh",
        severity="ticket",
        owner="pipeline",
        symptom="another run holds the batch lock, or none ran",
        rule=_find_old_batch,
        limits=("alerts.batch_schedules",),
    ),
    AlertSpec(
        name="AuditNotFresh",
        severity="ticket",
        owner="pipeline",
        symptom="in KAPPA no audit was conclusive for two days",
        rule=_find_old_audit,
        limits=("alerts.audit_schedules",),
    ),
)


TABLE_ALERTS = (
    AlertSpec(
        name="EpochHistoryBroken",
        severity="page",
        owner="pipeline",
        symptom="`transaction says 41, newest epoch row is 40`",
        rule=reported_by(lambda facts: facts.epochs),
        suppresses=("StreamNotRunning", "ReconcilerNotRunning", "NotComparable"),
    ),
    AlertSpec(
        name="ForeignWrite",
        severity="page",
        owner="pipeline",
        symptom="`expected no writer but ours`",
        rule=reported_by(lambda facts: facts.foreign_writes),
        suppresses=("NotComparable", "ReconcilerNotRunning"),
    ),
    AlertSpec(
        name="TableUnreadable",
        severity="page",
        owner="pipeline",
        symptom="`file ... is listed and not there`",
        rule=reported_by(lambda facts: facts.epochs),
        suppresses=("ReconcilerNotRunning", "BatchNotFresh", "NotComparable"),
    ),
    AlertSpec(
        name="DiskHeadroomLow",
        severity="ticket",
        owner="platform",
        symptom="less than 1 GiB free",
        rule=_find_low_disks,
        limits=("alerts.free_bytes",),
        no_drill="it needs a small disk; the fault F21 of `make faults` fills one",
    ),
    AlertSpec(
        name="TableGrowthHigh",
        severity="ticket",
        owner="pipeline",
        symptom="the epoch log grows faster than it used to",
        rule=_find_fast_growth,
        limits=("alerts.growth_times", "alerts.growth_rows", "alerts.growth_hours"),
        no_drill="a usual hour is known only after 24 hours of epochs; the fault F19 of `make faults` plants them",
    ),
    AlertSpec(
        name="PinnedVersionAtRisk",
        severity="ticket",
        owner="pipeline",
        symptom="files of a pinned epoch may be deleted before the pin expires",
        rule=_find_pins_at_risk,
    ),
)


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
