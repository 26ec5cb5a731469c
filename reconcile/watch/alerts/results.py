"""Alerts on results: what comparisons, checks and audits found, and the ages of batch runs, comparisons and audits."""

from collections.abc import Iterator

from cutover.reconcile.result.text import duration, number
from cutover.reconcile.watch.alerts.spec import AlertSpec, reported_by
from cutover.reconcile.watch.facts import WatchFacts, require


def _find_regression(facts: WatchFacts) -> Iterator[str]:
    regression = require(facts.regression)
    if regression is not None:
        rows = f"{number(regression.rows)} (window, key) rows of final windows"
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


ALERTS = (
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
