"""A runbook for one pipeline now: what fires, which windows and offsets, the last similar incident, then the page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cutover.definition.model.pipeline import Pipeline
from cutover.errors import CutoverError
from cutover.log.topic_partitions import format_number
from cutover.output.cells import visible
from cutover.reconcile.incident.similar import Incident, find_last
from cutover.reconcile.report import files, steps, verdicts
from cutover.reconcile.report.steps import Detail
from cutover.reconcile.result.report import Report
from cutover.reconcile.result.text import number, when
from cutover.reconcile.verdict import history
from cutover.reconcile.watch.status import WatchStatus
from cutover.runbooks.parse import split_head
from cutover.settings import Settings

NONE_RECORDED = "none is recorded"


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


def fill_page(settings: Settings, pipeline: Pipeline, name: str, text: str, status: WatchStatus) -> FilledPage:
    """Return a page filled for a pipeline.

    Args:
        settings: Where lake and reports lie.
        pipeline: Its definition.
        name: Of the page.
        text: Of the page.
        status: What `watch` says now.
    """
    result = _find_report(settings, pipeline, name)
    body = split_head(text)[1]
    details = (
        Detail(name="Pipeline", description=pipeline.name),
        Detail(name="Now", description=_describe_alert(status, name)),
        *_list_positions(status),
        *(() if result is None else steps.details(result)[1:]),
        Detail(name="Last similar incident", description=_describe_last_incident(settings, pipeline.name, name)),
    )
    filled = steps.fill_name(body, pipeline.name) if result is None else steps.fill_runbook(body, result)
    return FilledPage(name=name, pipeline=pipeline.name, details=_without_repeats(details), text=filled)


def _describe_alert(status: WatchStatus, name: str) -> str:
    firing = next((alert for alert in status.alerts if alert.name == name), None)
    return "this alert does not fire" if firing is None else f"{firing.severity}, {visible(firing.text)}"


def _list_positions(status: WatchStatus) -> Iterator[Detail]:
    if status.epoch is not None:
        yield Detail(name="Newest epoch", description=number(status.epoch))
    places = (f"{format_number(p.partition)}: {number(p.read)} of {number(p.end)}" for p in status.partitions)
    places_text = ", ".join(places)
    if places_text:
        yield Detail(name="Read up to (by partition)", description=places_text)


def _find_report(settings: Settings, pipeline: Pipeline, name: str) -> Report | None:
    """Return the newest comparison, if its report names this page; its windows are none of another page's business."""
    try:
        for comparison in history.list_current_first(settings, pipeline)[:1]:
            result = files.read_report(settings, pipeline.name, comparison.run_id)
            return result if verdicts.find_runbook(result) == name else None
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
