"""Alerts on results and on tables and disks.

Results: what comparisons, checks and audits found, and the ages of batch runs, comparisons and audits. Tables: damaged
or changed by another writer, growing, short of space, files of pins at risk.
"""

from collections.abc import Iterator

from cutover.counts import count_clause, count_noun
from cutover.reconcile.result.text import duration, format_number
from cutover.reconcile.watch.facts import AlertSpec, UnknownFact, WatchFacts, reported_by, require

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
