"""Alert as one value: its rule over the facts, its severity and owner, its limits, what it suppresses, its drill."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from cutover.reconcile.watch.facts import WatchFacts, require

Severity = Literal["page", "ticket", "info"]
"""Page: wake someone. Ticket: in working hours. Info: only shown."""

SEVERITIES: tuple[Severity, ...] = ("page", "ticket", "info")
"""Most urgent first."""

Owner = Literal["platform", "pipeline", "producers"]
"""Team that is notified. Platform: broker and machines. Producers: senders of the records. Pipeline: its results."""

Rule = Callable[[WatchFacts], Iterator[str]]
"""Yields a sentence for each occurrence; the first one is shown. Raises `UnknownFactError` if it cannot decide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSpec:
    """Condition that a person must learn about.

    Attributes:
        name: Of the alert, of its runbook in `docs/runbooks`, and of its drill.
        severity: How urgent it is.
        owner: Team that is notified.
        symptom: How a person sees it, in a few words, for the index of runbooks.
        rule: Decides whether it fires.
        limits: Settings (`alerts.*`) and attributes of the definition (`policy.*`, `lateness.*`) that the rule compares
            facts with.
        suppresses: Alerts of the same pipeline that are not sent while this one fires, because they follow from it.
        no_drill: Why no drill causes the alert, and what does instead; None: `cutover drill NAME` causes it.
    """

    name: str
    severity: Severity
    owner: Owner
    symptom: str
    rule: Rule
    limits: tuple[str, ...] = ()
    suppresses: tuple[str, ...] = ()
    no_drill: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Alert that fires now."""

    name: str  # page in docs/runbooks
    text: str  # one clause with the numbers
    severity: Severity


def reported_by(fact: Callable[[WatchFacts], object]) -> Rule:
    """Build the rule of an alert that fires only when a fact reports a problem under its name.

    `catalogue.evaluate` fires it; the rule only leaves the alert undecided while the fact is unknown.
    """

    def require_reports(facts: WatchFacts) -> Iterator[str]:
        require(fact(facts))
        return iter(())

    return require_reports
