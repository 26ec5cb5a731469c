"""One alert: a name with a page in `docs/runbooks`, its severity and what was seen; and the rule that decides it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from cutover.reconcile.watch.facts import WatchFacts

Severity = Literal["page", "ticket", "info"]

SEVERITIES: Mapping[str, Severity] = {
    "StreamNotRunning": "page",
    "StreamFenced": "page",
    "KafkaUnreachable": "ticket",
    "RetentionHeadroomLow": "ticket",
    "LogDataLost": "page",
    "TopicIdentityChanged": "page",
    "PartitionsChanged": "info",
    "OpenTransactionHoldsLog": "ticket",
    "EpochHistoryBroken": "page",
    "TableUnreadable": "page",
    "ForeignWrite": "page",
    "DiskHeadroomLow": "ticket",
    "CommitConflictRateHigh": "ticket",
    "KeySkewHigh": "ticket",
    "TableGrowthHigh": "ticket",
    "WatermarkAheadOfClock": "page",
    "WatermarkHeld": "ticket",
    "NoInput": "info",
    "LateRateHigh": "ticket",
    "MalformedRateHigh": "ticket",
    "FutureEvents": "ticket",
    "DuplicateRateHigh": "ticket",
    "FilteredRateHigh": "ticket",
    "SchemaChanged": "ticket",
    "ClockSkew": "ticket",
    "BatchNotFresh": "ticket",
    "ReconcilerNotRunning": "ticket",
    "NotComparable": "ticket",
    "DivergenceUnexplained": "page",
    "RetirementRegression": "page",
    "AuditNotFresh": "ticket",
    "InvariantBroken": "page",
    "SealBroken": "ticket",
    "PinnedVersionAtRisk": "ticket",
}
"""Page: wake someone. Ticket: in working hours. Info: shown only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """What fires now."""

    name: str  # page in docs/runbooks
    text: str  # what was seen, one clause
    severity: Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Pure function over facts, and the alerts that are undecided where a fact that it needs is unknown."""

    check: Callable[[WatchFacts], Iterator[Alert]]  # may raise UnknownFactError
    decides: tuple[str, ...]


def alert(name: str, text: str) -> Alert:
    """Return an alert; a page that is no alert of its own (a driver may name any) is a ticket."""
    return Alert(name=name, text=text, severity=SEVERITIES.get(name, "ticket"))
