"""A runbook for one pipeline now: what fires, which windows and offsets, the last similar incident, then the page.

The last similar incident is found in the recorded comparisons, checks and accepted losses.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from cutover.errors import CutoverError
from cutover.lake.journal import Journal
from cutover.lake.journal_rows import Loss
from cutover.log.topic_partitions import format_partition_number
from cutover.output.cells import visible
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.journal_rows import VerificationRow
from cutover.reconcile.report import files, steps
from cutover.reconcile.report.steps import Detail
from cutover.reconcile.result.report import Report
from cutover.reconcile.result.text import count_noun, format_number, when
from cutover.reconcile.verdict import decision, history, records
from cutover.reconcile.verdict.records import RecordedComparison
from cutover.reconcile.verify.facts.facts import CheckState
from cutover.reconcile.watch.status import WatchStatus
from cutover.runbooks import split_head
from cutover.settings import Settings

OF_LOSSES: Mapping[str, str] = {"gap": "LogDataLost", "anew": "TopicIdentityChanged"}
"""Runbook of each kind of accepted loss; an `anew` loss may also be the last step of another runbook, see `ANEW`."""

ANEW = frozenset({"TopicIdentityChanged", "EpochHistoryBroken", "TableUnreadable", "ForeignWrite", "LogDataLost"})

NONE_RECORDED = "none is recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """A recorded event that required the same runbook."""

    at: datetime
    text: str  # what it was, one clause


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledPage:
    """A runbook with its incident.

    Attributes:
        name: Of the page.
        pipeline: Its name.
        details: What is concerned, in the order in which it is shown.
        text: The page in Markdown, without its head, with this pipeline, window and range in its commands.
    """

    name: str
    pipeline: str
    details: tuple[Detail, ...]
    text: str

    def to_text(self) -> str:
        """Return the details as a list, and the page behind them."""
        detail_lines = "\n".join(f"- {detail.name}: {detail.description}" for detail in self.details)
        title, _, body = self.text.partition("\n")
        return f"{title}\n\n{detail_lines}\n{body}"


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
        list_of_comparisons(records.read_comparisons(settings, pipeline), name),
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
    return {decision.RUNBOOKS[decision.name_outcome(line.verdict, within=is_within_policy)]} | {
        breach.get("runbook") for breach in breaches
    }


def fill_page(lake: PipelineLake, name: str, text: str, status: WatchStatus) -> FilledPage:
    """Return a page filled for a pipeline.

    Args:
        lake: Pipeline that the page is filled for.
        name: Of the page.
        text: Of the page.
        status: What `watch` says now.
    """
    pipeline = lake.pipeline
    result = _find_report(lake, name)
    body = split_head(text)[1]
    details = (
        Detail(name="Pipeline", description=pipeline.name),
        Detail(name="Now", description=_describe_alert(status, name)),
        *_list_positions(status),
        *(() if result is None else steps.details(result)[1:]),
        Detail(name="Last similar incident", description=_describe_last_incident(lake.settings, pipeline.name, name)),
    )
    filled = steps.fill_name(body, pipeline.name) if result is None else steps.fill_runbook(body, result)
    return FilledPage(name=name, pipeline=pipeline.name, details=_without_repeats(details), text=filled)


def _describe_alert(status: WatchStatus, name: str) -> str:
    firing = next((alert for alert in status.alerts if alert.name == name), None)
    return "this alert does not fire" if firing is None else f"{firing.severity}, {visible(firing.text)}"


def _list_positions(status: WatchStatus) -> Iterator[Detail]:
    if status.epoch is not None:
        yield Detail(name="Newest epoch", description=format_number(status.epoch))
    places = (
        f"{format_partition_number(p.partition)}: {format_number(p.read)} of {format_number(p.end)}"
        for p in status.partitions
    )
    places_text = ", ".join(places)
    if places_text:
        yield Detail(name="Read up to (by partition)", description=places_text)


def _find_report(lake: PipelineLake, name: str) -> Report | None:
    """Return the newest comparison, if its report names this page; its windows are none of another page's business."""
    try:
        for comparison in history.list_current_first(lake)[:1]:
            result = files.read_report(lake.settings, lake.name, comparison.run_id)
            return result if decision.find_runbook(result) == name else None
    except CutoverError:  # a page is wanted most where something cannot be read
        return None
    return None


def _describe_last_incident(settings: Settings, pipeline: str, name: str) -> str:
    try:
        incident: Incident | None = find_last(settings, pipeline, name)
    except CutoverError as error:
        return f"cannot be read ({visible(str(error).splitlines()[0])})"
    return NONE_RECORDED if incident is None else f"{when(incident.at.isoformat())} UTC, {visible(incident.text)}"


def _without_repeats(details: Sequence[Detail]) -> tuple[Detail, ...]:
    """Return the details, those with a name that came before left out but for the last one."""
    return tuple({detail.name: detail for detail in details}.values())
