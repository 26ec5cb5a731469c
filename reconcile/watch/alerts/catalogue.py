"""List of all alerts, and their evaluation over the facts of one moment."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cutover.output.cells import visible
from cutover.reconcile.watch.alerts import driver, log, records, results
from cutover.reconcile.watch.alerts.spec import SEVERITIES, Alert, AlertSpec
from cutover.reconcile.watch.facts import Problem, UnknownFact, UnknownFactError, WatchFacts

GROUPS: Mapping[str, tuple[AlertSpec, ...]] = {
    "records of the log are lost, or soon will be": log.ALERTS,
    "a table was changed or damaged from outside": results.TABLE_ALERTS,
    "the driver does not process the log": driver.DRIVER_ALERTS,
    "a result is wrong, late or unverified": results.RESULT_ALERTS,
    "event time runs ahead or stops": driver.EVENT_TIME_ALERTS,
    "records are not as the definition expects": records.ALERTS,
}
"""Alerts by what they mean, causes before consequences."""

ALERTS: tuple[AlertSpec, ...] = tuple(spec for group in GROUPS.values() for spec in group)

ALERTS_BY_NAME: Mapping[str, AlertSpec] = {spec.name: spec for spec in ALERTS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Outcome of every rule."""

    alerts: tuple[Alert, ...]  # that fire, most urgent first, each name once
    undecided: tuple[str, ...]  # alerts that do not fire and whose facts are unknown


def evaluate_alerts(facts: WatchFacts) -> Evaluation:
    """Evaluate every rule, and add the problems that the driver, tables and comparisons report under other names."""
    texts: dict[str, str] = {}
    undecided: list[str] = []
    for problem in _list_driver_failure(facts):
        texts.setdefault(problem.runbook, problem.text)
    for spec in ALERTS:
        try:
            for text in spec.rule(facts):
                texts.setdefault(spec.name, text)
        except UnknownFactError:
            undecided.append(spec.name)
    for problem in _list_reported_problems(facts):
        texts.setdefault(problem.runbook, problem.text)
    firing = [make_alert(name, text) for name, text in texts.items()]
    return Evaluation(
        alerts=tuple(sorted(firing, key=lambda alert: SEVERITIES.index(alert.severity))),
        undecided=tuple(name for name in undecided if name not in texts),
    )


def list_firing(facts: WatchFacts) -> tuple[Alert, ...]:
    """Return the alerts that fire, most urgent first, each name once."""
    return evaluate_alerts(facts).alerts


def make_alert(name: str, text: str) -> Alert:
    """Build a firing alert; a runbook that is no alert of the list, which an error may name, is a ticket."""
    spec = ALERTS_BY_NAME.get(name)
    return Alert(name=name, text=text, severity="ticket" if spec is None else spec.severity)


def _list_driver_failure(facts: WatchFacts) -> Iterator[Problem]:
    """Yield why the driver failed, under the runbook that its error named."""
    state = facts.driver
    if not isinstance(state, UnknownFact) and state.state == "FAILED":
        text = visible(state.error or "the driver failed")
        yield Problem(runbook=state.runbook or "StreamNotRunning", text=text)


def _list_reported_problems(facts: WatchFacts) -> Iterator[Problem]:
    """Yield the problems that are reported; a report that could not be read holds none."""
    for problems in (facts.problems, facts.comparison_problems, facts.violated_checks, facts.foreign_writes):
        if not isinstance(problems, UnknownFact):
            yield from problems
