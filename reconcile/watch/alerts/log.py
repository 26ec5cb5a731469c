"""Alerts on the log beside the newest epoch: records gone or soon gone, partitions, transactions."""

from collections.abc import Iterator, Mapping
from datetime import timedelta

from cutover.reconcile.result.text import duration, number
from cutover.reconcile.watch.alerts.alert import Alert, alert
from cutover.reconcile.watch.facts import WatchFacts
from cutover.reconcile.watch.lag import LagSample, lasting

OUTAGES = 2
"""How many of the longest outages the log must outlast."""


def of_log(facts: WatchFacts) -> Iterator[Alert]:
    """Yield the alerts of a log that answers."""
    sample, newest = facts.sample, facts.newest
    if sample is None or newest is None:
        return
    if sample.topic_id is not None and sample.topic_id != newest.topic_id:
        was = f"the newest epoch was read from {newest.topic_id}"
        yield alert("TopicIdentityChanged", f"topic {newest.topic} has topic id {sample.topic_id}, {was}")
        return
    yield from (alert("LogDataLost", text) for text in facts.changed)
    if not facts.changed:
        yield from _check_loss(facts, sample)
    yield from _check_partitions(facts, sample)
    yield from _check_open_transactions(facts, sample)
    yield from _check_headroom(facts, sample)


def _check_loss(facts: WatchFacts, sample: LagSample) -> Iterator[Alert]:
    for p, wanted in sorted(facts.expected.items()):
        first, end = sample.earliest.get(p, wanted), max(sample.high.get(p, wanted), sample.ends.get(p, 0))
        next_one = f"partition {p}: offset {wanted} is next"
        if p not in sample.ends:
            yield alert("LogDataLost", f"{next_one}, the partition is not there")
        elif first > wanted:
            yield alert("LogDataLost", f"{next_one}, the log starts at {first}: {number(first - wanted)} are gone")
        elif end < wanted:
            yield alert("LogDataLost", f"{next_one}, the log ends at {end}: {number(wanted - end)} are gone")


def _check_partitions(facts: WatchFacts, sample: LagSample) -> Iterator[Alert]:
    """Yield that partitions came which an epoch of late did not know, or the one that stood when these began."""
    since = max(0, len(facts.records) - len(tuple(facts.recent())) - 1)
    new = sorted({p for record in facts.records[since:] for p in sample.ends if p not in record.end})
    if new:
        named = ", ".join(str(p) for p in new)
        yield alert("PartitionsChanged", f"new: {named}; the topic has {len(sample.ends)} partitions now")


def _check_open_transactions(facts: WatchFacts, sample: LagSample) -> Iterator[Alert]:
    """Yield which partition a transaction holds: by the driver's own count, or by our looks."""
    for p, high in sorted(sample.high.items()):
        stable = sample.ends.get(p, high)
        if stable >= high:
            continue
        since = facts.driver.open_since.get(str(p)) if facts.driver.alive else None
        held = max(lasting(facts.driver, since, facts.at), _measure_open_seconds(facts, p))
        if held > facts.limits.open_seconds:
            behind = f"{number(high - stable)} offsets wait behind an open transaction"
            yield alert("OpenTransactionHoldsLog", f"partition {p} stands at {stable} for {duration(held)}: {behind}")


def _measure_open_seconds(facts: WatchFacts, partition: int) -> float:
    """Return for how long our own looks have shown the same last stable offset below the end."""
    newest = facts.samples[-1]
    since = newest.at
    for sample in reversed(facts.samples):
        stable = sample.ends.get(partition, 0)
        if stable != newest.ends[partition] or stable >= sample.high.get(partition, 0):
            break
        since = sample.at
    return (newest.at - since).total_seconds()


def _check_headroom(facts: WatchFacts, sample: LagSample) -> Iterator[Alert]:
    """Yield how long retention needs to what is to be read next, where that is too short."""
    needed = OUTAGES * timedelta(seconds=facts.limits.outage_seconds) + (facts.replay or timedelta())
    left = {p: _estimate_time_left(facts, sample, p) for p in sample.ends}
    known: Mapping[int, timedelta] = {p: found for p, found in left.items() if found is not None}
    if not known:
        return
    p = min(known, key=lambda p: known[p])
    if known[p] < needed:
        room = duration(max(0.0, known[p].total_seconds()))
        wanted = duration(needed.total_seconds())
        yield alert("RetentionHeadroomLow", f"partition {p}: {room} until unread records go, {wanted} are needed")


def _estimate_time_left(facts: WatchFacts, sample: LagSample, partition: int) -> timedelta | None:
    """Return the time until the first unread record goes: by age, or by the pace at which the log's start moves."""
    found = []
    if facts.retention is not None:
        age = sample.at.timestamp() - sample.unread_since.get(partition, sample.at.timestamp() * 1e6) / 1e6
        found.append(facts.retention - timedelta(seconds=age))
    first = facts.samples[0]
    moved = sample.earliest.get(partition, 0) - first.earliest.get(partition, 0)
    seconds = (sample.at - first.at).total_seconds()
    if moved > 0 and seconds > 0:
        room = facts.expected.get(partition, 0) - sample.earliest[partition]
        found.append(timedelta(seconds=max(0, room) / moved * seconds))
    return min(found, default=None)
