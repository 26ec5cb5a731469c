"""Which alerts fire now, and which cannot be decided: pure functions over facts, one module for each kind of fact."""

from dataclasses import dataclass

from cutover.reconcile.watch.alerts import driver, event_time, log, records, results
from cutover.reconcile.watch.alerts.alert import SEVERITIES, Alert, Rule, Severity
from cutover.reconcile.watch.facts import UnknownFactError, WatchFacts

__all__ = ["RULES", "SEVERITIES", "Alert", "Evaluation", "Severity", "alerts", "evaluate"]

_URGENT: tuple[Severity, ...] = ("page", "ticket", "info")
RULES: tuple[Rule, ...] = (*driver.RULES, *log.RULES, *event_time.RULES, *records.RULES, *results.RULES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Outcome of every rule."""

    alerts: tuple[Alert, ...]  # that fire, the most urgent first, each name once
    undecided: tuple[str, ...]  # names of those whose facts could not be read, and that do not fire


def evaluate(facts: WatchFacts) -> Evaluation:
    """Evaluate every rule; one that needs an unknown fact claims nothing that depends on it."""
    firing: dict[str, Alert] = {}
    undecided: list[str] = []
    for rule in RULES:
        try:
            for one in rule.check(facts):
                firing.setdefault(one.name, one)
        except UnknownFactError:
            undecided += rule.decides
    return Evaluation(
        alerts=tuple(sorted(firing.values(), key=lambda one: _URGENT.index(one.severity))),
        undecided=tuple(name for name in undecided if name not in firing),
    )


def alerts(facts: WatchFacts) -> tuple[Alert, ...]:
    """Return the alerts that fire, the most urgent first, each name once."""
    return evaluate(facts).alerts
