"""Alerts on results: tables and their last comparison, the batch path's age, pins, and room on the disks."""

from collections.abc import Iterator

from cutover.reconcile.result.text import duration, number
from cutover.reconcile.watch.alerts.alert import Alert, alert
from cutover.reconcile.watch.facts import WatchFacts

GIB = 1 << 30


def of_results(facts: WatchFacts) -> Iterator[Alert]:
    """Yield the alerts on what was computed, and on where it lies."""
    for trouble in facts.troubles:
        yield alert(trouble.runbook, trouble.text)
    yield from _check_regression(facts)
    yield from _check_audit(facts)
    yield from _check_batch(facts)
    yield from _check_verdict(facts)
    yield from _check_pins(facts)
    yield from _check_disk(facts)
    yield from _check_growth(facts)


def _check_regression(facts: WatchFacts) -> Iterator[Alert]:
    found = facts.regression
    if found is not None:
        text = f"an audit at {found.at}, epoch {found.epoch}, found {number(found.rows)} (window, key) rows of final "
        yield alert("RetirementRegression", text + f"windows that the log gives otherwise, such as {found.first}")


def _check_audit(facts: WatchFacts) -> Iterator[Alert]:
    """Yield that nobody looks any more whether the one path that is left is right."""
    if facts.audit is None:
        return
    age = facts.audit.measure_least_age(facts.at)
    if age > facts.audit.schedule * facts.limits.audit_schedules:
        text = f"in KAPPA, and no audit could say anything for {duration(age.total_seconds())}"
        yield alert("AuditNotFresh", f"{text}, its schedule is {duration(facts.audit.schedule.total_seconds())}")


def _check_batch(facts: WatchFacts) -> Iterator[Alert]:
    if facts.batch is None:
        return
    age = facts.batch.measure_least_age(facts.at)
    if age > facts.batch.schedule * facts.limits.batch_schedules:
        every = duration(facts.batch.schedule.total_seconds())
        yield alert("BatchNotFresh", f"no batch run for {duration(age.total_seconds())}, its schedule is {every}")


def _check_verdict(facts: WatchFacts) -> Iterator[Alert]:
    if facts.verdict is None:
        return
    age = facts.verdict.measure_least_age(facts.at)
    if age > facts.verdict.schedule * facts.limits.reconcile_schedules:
        every = duration(facts.verdict.schedule.total_seconds())
        text = f"no verdict at the newest cut for {duration(age.total_seconds())}, the batch path's schedule is {every}"
        yield alert("ReconcilerNotRunning", text)


def _check_pins(facts: WatchFacts) -> Iterator[Alert]:
    for pin in facts.pins:
        if pin.files_until is not None and pin.files_until < pin.expires_at:
            until = f"{pin.files_until:%Y-%m-%d %H:%M}"
            text = f"{pin.holder} holds epoch {pin.epoch}, its files may go from {until} UTC"
            yield alert("PinnedVersionAtRisk", text)


def _check_disk(facts: WatchFacts) -> Iterator[Alert]:
    wanted = max(facts.grown, facts.limits.free_bytes)
    for place, free in facts.free.items():
        if free < wanted:
            text = f"{free / GIB:.2f} GiB are free at the {place}, {wanted / GIB:.2f} are needed"
            yield alert("DiskHeadroomLow", text)


def _check_growth(facts: WatchFacts) -> Iterator[Alert]:
    """Yield that the epoch log grows much faster than it used to: new keys, smaller windows, rows of single records."""
    found, limits = facts.growth, facts.limits
    if found is None or found.hours < limits.growth_hours:
        return
    if found.newest > max(limits.growth_times * found.usual, limits.growth_rows):
        times = f"{found.newest / found.usual:.1f} times the {number(round(found.usual))} of a usual hour of this week"
        yield alert("TableGrowthHigh", f"{number(found.newest)} rows were added in the last hour, {times}")
