"""Alerts on the log beside the newest epoch: records gone or soon gone, partitions, transactions."""

from collections.abc import Iterator, Mapping
from datetime import timedelta

from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.reconcile.result.text import duration, number
from cutover.reconcile.watch.alerts.alert import Alert, Rule, alert
from cutover.reconcile.watch.facts import UnknownFact, WatchFacts, known
from cutover.reconcile.watch.lag import LagSample, lasting

OUTAGES = 2
"""How many of the longest outages the log must outlast."""


def _check_topic(facts: WatchFacts) -> Iterator[Alert]:
    sample, newest = facts.sample, facts.newest
    if sample is not None and newest is not None and _is_other_topic(sample, newest):
        was = f"the newest epoch was read from {newest.topic_id}"
        yield alert("TopicIdentityChanged", f"topic {newest.topic} has topic id {sample.topic_id}, {was}")


def _is_other_topic(sample: LagSample, newest: EpochRecord) -> bool:
    return sample.topic_id is not None and sample.topic_id != newest.topic_id


def _find_sample(facts: WatchFacts) -> LagSample | None:
    """Return the newest look at the topic that the stream reads; None: there is none, or it is another topic now."""
    sample, newest = facts.sample, facts.newest
    return None if sample is None or newest is None or _is_other_topic(sample, newest) else sample


def _check_loss(facts: WatchFacts) -> Iterator[Alert]:
    sample = _find_sample(facts)
    if sample is None:
        return
    for texts in (facts.compacted, facts.lost):
        if not isinstance(texts, UnknownFact):
            yield from (alert("LogDataLost", text) for text in texts)
    if not isinstance(facts.changed, UnknownFact) and facts.changed:
        yield from (alert("LogDataLost", text) for text in facts.changed)
        return
    for p, wanted in sorted(known(facts.expected).items()):
        first, end = sample.earliest.get(p, wanted), max(sample.high.get(p, wanted), sample.ends.get(p, 0))
        next_one = f"partition {p}: offset {wanted} is next"
        if p not in sample.ends:
            yield alert("LogDataLost", f"{next_one}, the partition is not there")
        elif first > wanted:
            yield alert("LogDataLost", f"{next_one}, the log starts at {first}: {number(first - wanted)} are gone")
        elif end < wanted:
            yield alert("LogDataLost", f"{next_one}, the log ends at {end}: {number(wanted - end)} are gone")
    for fact in (facts.changed, facts.compacted, facts.lost):
        known(fact)  # without it no one knows that nothing was lost


def _check_partitions(facts: WatchFacts) -> Iterator[Alert]:
    """Yield that partitions came which an epoch of late did not know, or the one that stood when these began."""
    sample, records = _find_sample(facts), known(facts.records)
    if sample is None:
        return
    since = max(0, len(records) - len(tuple(facts.recent())) - 1)
    new = sorted({p for record in records[since:] for p in sample.ends if p not in record.end})
    if new:
        named = ", ".join(str(p) for p in new)
        yield alert("PartitionsChanged", f"new: {named}; the topic has {len(sample.ends)} partitions now")


def _check_open_transactions(facts: WatchFacts) -> Iterator[Alert]:
    """Yield which partition a transaction holds: by the driver's own count, or by our looks."""
    sample = _find_sample(facts)
    if sample is None:
        return
    for p, high in sorted(sample.high.items()):
        stable = sample.ends.get(p, high)
        if stable >= high:
            continue
        held = max(_measure_told_open(facts, p), _measure_open_seconds(facts, p))
        if held > facts.limits.open_seconds:
            behind = f"{number(high - stable)} offsets wait behind an open transaction"
            yield alert("OpenTransactionHoldsLog", f"partition {p} stands at {stable} for {duration(held)}: {behind}")


def _measure_told_open(facts: WatchFacts, partition: int) -> float:
    """Return for how long the driver says that a transaction has held a partition's end; 0 if it does not say."""
    driver = facts.driver
    if isinstance(driver, UnknownFact) or not driver.alive:
        return 0.0
    return lasting(driver, driver.open_since.get(str(partition)), facts.at)


def _measure_open_seconds(facts: WatchFacts, partition: int) -> float:
    """Return for how long our own looks have shown the same last stable offset below the end."""
    newest = facts.samples[-1]
    since = newest.seen
    for sample in reversed(facts.samples):
        stable = sample.ends.get(partition, 0)
        if stable != newest.ends[partition] or stable >= sample.high.get(partition, 0):
            break
        since = sample.seen
    return newest.seen - since


def _check_headroom(facts: WatchFacts) -> Iterator[Alert]:
    """Yield how long retention needs to what is to be read next, where that is too short."""
    sample = _find_sample(facts)
    if sample is None:
        return
    needed = OUTAGES * timedelta(seconds=facts.limits.outage_seconds) + (facts.replay or timedelta())
    left = {p: _estimate_time_left(facts, sample, p) for p in sample.ends}
    bounded: Mapping[int, timedelta] = {p: time for p, time in left.items() if time is not None}
    if not bounded:
        return
    p = min(bounded, key=lambda p: bounded[p])
    if bounded[p] < needed:
        room = duration(max(0.0, bounded[p].total_seconds()))
        wanted = duration(needed.total_seconds())
        yield alert("RetentionHeadroomLow", f"partition {p}: {room} until unread records go, {wanted} are needed")


def _estimate_time_left(facts: WatchFacts, sample: LagSample, partition: int) -> timedelta | None:
    """Return the time until the first unread record goes: by age, or by the pace at which the log's start moves."""
    found = []
    retention = known(facts.retention)
    if retention is not None:
        age = sample.at.timestamp() - sample.unread_since.get(partition, sample.at.timestamp() * 1e6) / 1e6
        found.append(retention - timedelta(seconds=age))
    first = facts.samples[0]
    moved = sample.earliest.get(partition, 0) - first.earliest.get(partition, 0)
    seconds = sample.seen - first.seen
    if moved > 0 and seconds > 0:
        room = known(facts.expected).get(partition, 0) - sample.earliest[partition]
        found.append(timedelta(seconds=max(0, room) / moved * seconds))
    return min(found, default=None)


RULES = (
    Rule(check=_check_topic, decides=("TopicIdentityChanged",)),
    Rule(check=_check_loss, decides=("LogDataLost",)),
    Rule(check=_check_partitions, decides=("PartitionsChanged",)),
    Rule(check=_check_open_transactions, decides=("OpenTransactionHoldsLog",)),
    Rule(check=_check_headroom, decides=("RetentionHeadroomLow",)),
)
