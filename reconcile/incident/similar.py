"""Last similar incident of a pipeline, from its recorded comparisons, checks and accepted losses."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from cutover.lake.journal import Journal
from cutover.lake.journal_rows import Loss
from cutover.reconcile.journal_rows import VerificationRow
from cutover.reconcile.report import verdicts
from cutover.reconcile.result.text import count_noun
from cutover.reconcile.verdict import records
from cutover.reconcile.verdict.records import RecordedComparison
from cutover.reconcile.verify.model import CheckState
from cutover.settings import Settings

OF_LOSSES: Mapping[str, str] = {"gap": "LogDataLost", "anew": "TopicIdentityChanged"}
"""Runbook of each kind of accepted loss; an `anew` loss may also be the last step of another runbook, see `ANEW`."""

ANEW = frozenset({"TopicIdentityChanged", "EpochHistoryBroken", "TableUnreadable", "ForeignWrite", "LogDataLost"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """A recorded event that required the same runbook."""

    at: datetime
    text: str  # what it was, one clause


def find_last(settings: Settings, pipeline: str, name: str) -> Incident | None:
    """Return the newest incident of a page that is over; None if none was recorded.

    An alert that is neither a verdict, nor a check, nor a loss leaves no record: it has no similar incident.

    Args:
        settings: Where the lake lies.
        pipeline: Its name.
        name: Of the page.

    Raises:
        LakeError: The records cannot be read.
    """
    histories = (
        list_of_comparisons(records.read_lines(settings, pipeline), name),
        list_of_checks(Journal(settings, pipeline, VerificationRow).read(), name),
        list_of_losses(Journal(settings, pipeline, Loss).read(), name),
    )
    # Each history is in its own order. Only times show a reader which of their newest incidents is the newest.
    newest = [history[-1] for history in map(list, histories) if history]
    return max(newest, key=lambda incident: incident.at, default=None)


def list_of_comparisons(lines: Iterable[RecordedComparison], name: str) -> Iterator[Incident]:
    """Yield the comparisons that named a page and were followed by one that did not."""
    standing: list[Incident] = []
    for line in lines:
        if name in _pages(line):
            text = f"a comparison came to {line.verdict.value} at epoch {line.epoch} (run {line.run_id})"
            standing.append(Incident(at=line.first_recorded, text=text))
        else:
            yield from standing
            standing = []


def list_of_checks(rows: Iterable[VerificationRow], name: str) -> Iterator[Incident]:
    """Yield the runs of the checks that found a violation and were followed by one that found none."""
    standing: list[Incident] = []
    for row in rows if name == "InvariantBroken" else ():
        violated = sorted(check for check, state in json.loads(row.checks).items() if state == CheckState.VIOLATED)
        if violated:
            text = f"{', '.join(violated)} violated at epoch {row.epoch}"
            standing.append(Incident(at=row.at, text=text))
        else:
            yield from standing
            standing = []


def list_of_losses(rows: Iterable[Loss], name: str) -> Iterator[Incident]:
    """Yield the accepted losses of a page: who accepted what, and why; one for each recorded step."""
    steps: dict[int, list[Loss]] = {}
    for row in rows:
        if OF_LOSSES.get(row.kind) == name or (row.kind == "anew" and name in ANEW):
            steps.setdefault(row.sequence, []).append(row)
    for step in steps.values():
        first_loss = step[0]
        description = f"{count_noun(len(step), 'partition')} of {first_loss.topic}, {first_loss.who}: {first_loss.why}"
        yield Incident(at=first_loss.at, text=f"a loss was accepted ({description})")


def _pages(line: RecordedComparison) -> set[str | None]:
    """Return the pages that a comparison named: of its verdict, and of each broken part of its seal."""
    is_within_policy = bool((line.result.get("policy") or {}).get("within", True))
    breaches = (line.result.get("seal") or {}).get("breaches", [])
    return {verdicts.RUNBOOKS[verdicts.name_outcome(line.verdict, within=is_within_policy)]} | {
        breach.get("runbook") for breach in breaches
    }
