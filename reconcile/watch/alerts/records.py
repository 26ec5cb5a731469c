"""Alerts on what records are: shares of a class beyond the policy, a schema that changed, one key with most of them."""

from collections import Counter
from collections.abc import Iterator

from cutover.reconcile.result.text import duration, number, share
from cutover.reconcile.watch.alerts.alert import Alert, Rule, alert
from cutover.reconcile.watch.facts import WatchFacts, known, seconds_since
from cutover.records.classes import Class

EPOCHS_IN_A_ROW = 10
"""Large epochs that one key must lead before it counts as skew."""


def _check_shares(facts: WatchFacts) -> Iterator[Alert]:
    counts: Counter[str] = Counter()
    records = 0
    for record in facts.recent():
        counts.update(record.counts)
        records += record.records
    policy, over = facts.pipeline.policy, duration(facts.limits.rate_seconds)
    most = facts.pipeline.window.most  # windows that a record falls into, each of which is a pair of it
    pairs = "records" if most == 1 else "(record, window) pairs"
    judged = counts[Class.LATE] + counts[Class.ACCEPTED]
    late, future, doubled = counts[Class.LATE], counts[Class.FUTURE] / most, counts[Class.DUPLICATE] / most
    for name, kind, found, of, what, limit in (
        ("LateRateHigh", Class.LATE, late, judged, pairs, policy.max_late_share),
        ("MalformedRateHigh", Class.MALFORMED, counts[Class.MALFORMED], records, "records", policy.max_malformed_share),
        ("FutureEvents", Class.FUTURE, future, records, "records", policy.max_future_share),
        ("DuplicateRateHigh", Class.DUPLICATE, doubled, records, "records", policy.max_duplicate_share),
    ):
        if of and found / of > limit:
            seen = f"{share(found / of)} of {number(of)} {what} in {over} are {kind}"
            yield alert(name, f"{seen}, the policy allows {share(limit)}")


def _check_filtered(facts: WatchFacts) -> Iterator[Alert]:
    """Yield that the filter leaves out nearly every record: those of the last minutes, and as many as tell.

    Unlike the other classes a filtered record is nothing odd, so the share of a few records says nothing.
    """
    read = filtered = 0
    for record in reversed(known(facts.records)):
        age = seconds_since(record.processing_time, facts.at) or 0.0
        if age > facts.limits.rate_seconds and read >= facts.limits.filtered_records:
            break
        read += record.records
        filtered += record.counts.get(Class.FILTERED, 0)
    limit = facts.pipeline.policy.max_filtered_share
    if read >= facts.limits.filtered_records and filtered / read > limit:
        seen = f"{number(filtered)} of the newest {number(read)} records are filtered ({share(filtered / read)})"
        yield alert("FilteredRateHigh", f"{seen}, the policy allows {share(limit)}")


def _check_schema(facts: WatchFacts) -> Iterator[Alert]:
    unfit = known(facts.unfit)
    if unfit:
        found = (f"{one.what}, first at partition {one.partition}, offset {one.offset}" for one in unfit)
        yield alert("SchemaChanged", "; ".join(found))


def _check_one_key(facts: WatchFacts) -> Iterator[Alert]:
    """Yield that one key had most of the accepted records of each of the newest large epochs."""
    limits = facts.limits
    large = [r for r in known(facts.records) if r.counts.get(Class.ACCEPTED, 0) >= limits.one_key_records]
    shares = [record.one_key_share or 0.0 for record in large[-EPOCHS_IN_A_ROW:]]
    if len(shares) == EPOCHS_IN_A_ROW and min(shares) > limits.one_key_share:
        yield alert("KeySkewHigh", f"one key had {share(min(shares))} or more of {EPOCHS_IN_A_ROW} epochs in a row")


RULES = (
    Rule(check=_check_shares, decides=("LateRateHigh", "MalformedRateHigh", "FutureEvents", "DuplicateRateHigh")),
    Rule(check=_check_filtered, decides=("FilteredRateHigh",)),
    Rule(check=_check_schema, decides=("SchemaChanged",)),
    Rule(check=_check_one_key, decides=("KeySkewHigh",)),
)
