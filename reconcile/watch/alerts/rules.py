"""Which alerts fire now: a pure function over facts, one small module for each kind of fact."""

from collections.abc import Callable, Iterable

from cutover.reconcile.watch.alerts import driver, event_time, log, records, results
from cutover.reconcile.watch.alerts.alert import SEVERITIES, Alert, Severity
from cutover.reconcile.watch.facts import WatchFacts

__all__ = ["SEVERITIES", "Alert", "Severity", "alerts"]

_URGENT: tuple[Severity, ...] = ("page", "ticket", "info")
_KINDS: tuple[Callable[[WatchFacts], Iterable[Alert]], ...] = (
    driver.of_stream,
    log.of_log,
    event_time.of_time,
    records.of_records,
    results.of_results,
)


def alerts(facts: WatchFacts) -> tuple[Alert, ...]:
    """Return the alerts that fire, the most urgent first, each name once."""
    found: dict[str, Alert] = {}
    for kind in _KINDS:
        for one in kind(facts):
            found.setdefault(one.name, one)
    return tuple(sorted(found.values(), key=lambda one: _URGENT.index(one.severity)))
