"""Alerts on results: tables and their last comparison, the batch path's age, pins, and room on the disks."""

from collections.abc import Iterator, Sequence

from cutover.reconcile.result.text import duration, number
from cutover.reconcile.watch.alerts.alert import Alert, Rule, alert
from cutover.reconcile.watch.facts import Trouble, UnknownFact, WatchFacts, known

GIB = 1 << 30


def _check_sources(facts: WatchFacts) -> Iterator[Alert]:
    """Yield which source cannot be read, and which tables contradict each other."""
    yield from _list_alerts(facts.troubles)
    known(facts.records)  # without them no one knows that the epoch log holds what was committed


def _list_alerts(troubles: Sequence[Trouble]) -> Iterator[Alert]:
    return (alert(trouble.runbook, trouble.text) for trouble in troubles)


def _check_comparison(facts: WatchFacts) -> Iterator[Alert]:
    yield from _list_alerts(known(facts.comparison))


def _check_invariants(facts: WatchFacts) -> Iterator[Alert]:
    yield from _list_alerts(known(facts.checks))


def _check_writers(facts: WatchFacts) -> Iterator[Alert]:
    yield from _list_alerts(known(facts.foreign))


def _check_regression(facts: WatchFacts) -> Iterator[Alert]:
    found = known(facts.regression)
    if found is not None:
        text = f"an audit at {found.at}, epoch {found.epoch}, found {number(found.rows)} (window, key) rows of final "
        yield alert("RetirementRegression", text + f"windows that the log gives otherwise, such as {found.first}")


def _check_audit(facts: WatchFacts) -> Iterator[Alert]:
    """Yield that nobody looks any more whether the one path that is left is right."""
    audit = known(facts.audit)
    if audit is None:
        return
    age = audit.measure_least_age(facts.at)
    if age > audit.schedule * facts.limits.audit_schedules:
        text = f"in KAPPA, and no audit could say anything for {duration(age.total_seconds())}"
        yield alert("AuditNotFresh", f"{text}, its schedule is {duration(audit.schedule.total_seconds())}")


def _check_batch(facts: WatchFacts) -> Iterator[Alert]:
    batch = known(facts.batch)
    if batch is None:
        return
    age = batch.measure_least_age(facts.at)
    if age > batch.schedule * facts.limits.batch_schedules:
        every = duration(batch.schedule.total_seconds())
        yield alert("BatchNotFresh", f"no batch run for {duration(age.total_seconds())}, its schedule is {every}")


def _check_verdict(facts: WatchFacts) -> Iterator[Alert]:
    verdict = known(facts.verdict)
    if verdict is None:
        return
    age = verdict.measure_least_age(facts.at)
    if age > verdict.schedule * facts.limits.reconcile_schedules:
        every = duration(verdict.schedule.total_seconds())
        text = f"no verdict at the newest cut for {duration(age.total_seconds())}, the batch path's schedule is {every}"
        yield alert("ReconcilerNotRunning", text)


def _check_pins(facts: WatchFacts) -> Iterator[Alert]:
    for pin in known(facts.pins):
        if pin.files_until is not None and pin.files_until < pin.expires_at:
            until = f"{pin.files_until:%Y-%m-%d %H:%M}"
            text = f"{pin.holder} holds epoch {pin.epoch}, its files may go from {until} UTC"
            yield alert("PinnedVersionAtRisk", text)


def _check_disk(facts: WatchFacts) -> Iterator[Alert]:
    wanted = max(0 if isinstance(facts.grown, UnknownFact) else facts.grown, facts.limits.free_bytes)
    for place, free in known(facts.free).items():
        if free < wanted:
            text = f"{free / GIB:.2f} GiB are free at the {place}, {wanted / GIB:.2f} are needed"
            yield alert("DiskHeadroomLow", text)
    known(facts.grown)  # without it no one knows that the space is enough


def _check_growth(facts: WatchFacts) -> Iterator[Alert]:
    """Yield that the epoch log grows much faster than it used to: new keys, smaller windows, rows of single records."""
    found, limits = known(facts.growth), facts.limits
    if found is None or found.hours < limits.growth_hours:
        return
    if found.newest > max(limits.growth_times * found.usual, limits.growth_rows):
        times = f"{found.newest / found.usual:.1f} times the {number(round(found.usual))} of a usual hour of this week"
        yield alert("TableGrowthHigh", f"{number(found.newest)} rows were added in the last hour, {times}")


RULES = (
    Rule(check=_check_sources, decides=("EpochHistoryBroken", "TableUnreadable")),
    Rule(check=_check_comparison, decides=("NotComparable", "DivergenceUnexplained", "SealBroken")),
    Rule(check=_check_invariants, decides=("InvariantBroken",)),
    Rule(check=_check_writers, decides=("ForeignWrite",)),
    Rule(check=_check_regression, decides=("RetirementRegression",)),
    Rule(check=_check_audit, decides=("AuditNotFresh",)),
    Rule(check=_check_batch, decides=("BatchNotFresh",)),
    Rule(check=_check_verdict, decides=("ReconcilerNotRunning",)),
    Rule(check=_check_pins, decides=("PinnedVersionAtRisk",)),
    Rule(check=_check_disk, decides=("DiskHeadroomLow",)),
    Rule(check=_check_growth, decides=("TableGrowthHigh",)),
)
