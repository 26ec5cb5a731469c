"""Alerts on records: shares of a class beyond the policy, a changed schema, a key with most of the records."""

from collections import Counter
from collections.abc import Callable, Iterator

from cutover.counts import count_noun
from cutover.definition.model.policy import Policy
from cutover.reconcile.result.text import duration, format_number, share
from cutover.reconcile.watch.alerts.spec import AlertSpec, Rule
from cutover.reconcile.watch.facts import WatchFacts, require
from cutover.records.classes import Class

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


ALERTS = (
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
