"""Alerts on the driver: it ended, it commits nothing, the broker is silent, its clock or its commits are off."""

from collections.abc import Iterator, Sequence
from itertools import takewhile

from cutover.output.cells import visible
from cutover.reconcile.result.text import duration, number
from cutover.reconcile.watch.alerts.alert import Alert, Rule, alert
from cutover.reconcile.watch.facts import UnknownFact, WatchFacts, known, seconds_since
from cutover.reconcile.watch.lag import LagSample, count_unread, lasting

INTERVALS = 3
"""Triggers without a commit that are still no trouble."""


def _check_running(facts: WatchFacts) -> Iterator[Alert]:
    """Yield the page that a driver named when it failed; else that records are unread and nothing is committed."""
    driver, limits = known(facts.driver), facts.limits
    if driver.state == "FAILED":
        yield alert(driver.runbook or "StreamNotRunning", visible(driver.error or "the driver failed"))
        return
    stalled = _measure_stall(facts)
    if stalled > max(INTERVALS * facts.trigger_seconds, limits.stalled_seconds):
        who = f"driver {driver.state}" if driver.alive else "no driver lives"
        yield alert("StreamNotRunning", f"{who}, records are unread and nothing was committed for {duration(stalled)}")


def _measure_stall(facts: WatchFacts) -> float:
    """Return for how long records have been unread without a commit: by the driver, by us, or by its absence."""
    driver, newest = known(facts.driver), facts.newest
    if newest is None:
        since = driver.unread_since if driver.alive else driver.at
        return lasting(driver, since, facts.at) if known(facts.waiting) else 0.0
    sample = facts.sample
    if sample is None or not count_unread(sample):
        return 0.0
    if driver.alive:
        told = lasting(driver, driver.unread_since, facts.at)
    else:  # since the last commit by its clock, or its last beat by the file that tells of it: it may drive elsewhere
        ends = (seconds_since(newest.processing_time, facts.at), lasting(driver, driver.at, facts.at))
        told = min((seconds for seconds in ends if seconds is not None and seconds > 0), default=0.0)
    return max(told, _measure_seen_unread(facts.samples))


def _measure_seen_unread(samples: Sequence[LagSample]) -> float:
    """Return for how long our own looks have shown unread records behind one and the same epoch."""
    newest = samples[-1]
    same = takewhile(lambda s: count_unread(s) > 0 and s.epoch.epoch == newest.epoch.epoch, reversed(samples))
    return newest.seen - min(sample.seen for sample in same)


def _check_silence(facts: WatchFacts) -> Iterator[Alert]:
    driver = facts.driver
    by_driver = 0.0
    if not isinstance(driver, UnknownFact) and driver.alive:
        by_driver = lasting(driver, driver.silent_since, facts.at)
    longest = max(by_driver, facts.silent or 0.0)
    if longest > facts.limits.silent_seconds:
        yield alert("KafkaUnreachable", f"no answer from the broker for {duration(longest)}")


def _check_conflicts(facts: WatchFacts) -> Iterator[Alert]:
    refused = sum(record.conflicts for record in facts.recent())
    if refused > facts.limits.conflicts:
        over = duration(facts.limits.rate_seconds)
        yield alert("CommitConflictRateHigh", f"{number(refused)} commits were refused in {over}")


def _check_skew(facts: WatchFacts) -> Iterator[Alert]:
    """Yield that clocks differ; not where the definition takes log time from the records, as a replay does."""
    driver = known(facts.driver)
    if facts.pipeline.source.log_time is not None or not driver.alive:
        return
    worst = max(driver.skew.items(), key=lambda item: abs(item[1]), default=None)
    if worst is not None and abs(worst[1]) > facts.limits.skew_seconds:
        side = "behind" if worst[1] > 0 else "ahead of"
        far = duration(abs(worst[1]))
        yield alert("ClockSkew", f"partition {worst[0]}: new log timestamps are {far} {side} the driver's clock")


RULES = (
    Rule(check=_check_running, decides=("StreamNotRunning", "StreamFenced")),
    Rule(check=_check_silence, decides=("KafkaUnreachable",)),
    Rule(check=_check_conflicts, decides=("CommitConflictRateHigh",)),
    Rule(check=_check_skew, decides=("ClockSkew",)),
)
