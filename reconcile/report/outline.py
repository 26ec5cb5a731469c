"""Sections of a report in their order; each is a file of this name in `templates/sections`."""

from collections.abc import Iterator

from cutover.reconcile.report import repeat, verdicts
from cutover.reconcile.report.drawings import windows
from cutover.reconcile.result.report import Report

Section = tuple[str, str]
"""Its id, and its name among the links at the top."""


def sections(result: Report) -> list[Section]:
    """Return the sections that a comparison has something to say in; what it is about first, then the evidence."""
    report_sections = [("compared", "Compared data")]
    if result.finding.verdict != "NOT_COMPARABLE":
        report_sections += _of_findings(result)
    report_sections += _of_evidence(result)
    if verdicts.find_runbook(result):
        report_sections.append(("runbook", "What to do"))
    if repeat.commands(result):
        report_sections.append(("deeper", "Repeat"))
    return report_sections


def _of_findings(result: Report) -> Iterator[Section]:
    is_pipeline = result.finding.kind == "pipeline"
    if is_pipeline or result.finding.days:
        yield "calendar", "Calendar"
    if is_pipeline or result.finding.waterfall:
        yield "causes", "Causes" if is_pipeline else "Totals"
    yield "differences", "Differences"
    if is_pipeline or windows.bins(result.finding.window_series, 1)[1]:
        yield "windows", "Windows"
    yield "keys", "Keys"
    if result.finding.apart:
        yield "apart", "How far"
    if result.finding.segments:
        yield "segments", "Where"
    if result.finding.accepted:
        yield "accepted", "Accepted"
    if is_pipeline:
        yield "lateness", "Lateness"
        yield "log-lateness", "Lateness of the log"
        if result.settlement is not None:
            yield "settlement", "Settlement"
        if result.early is not None or result.finding.open_answers is not None:
            yield "early", "Early answers"
        yield "noise", "Noise"
        yield "advice", "Advice"
        yield "watermark", "Watermark"
        yield "samples", "Records"
        yield "contract", "Contract"


def _of_evidence(result: Report) -> Iterator[Section]:
    if result.finding.losses:
        yield "lost", "Lost records"
    if result.finding.kind == "pipeline":
        yield "selftest", "Self-test"
        if result.cost is not None:
            yield "cost", "Cost"
        yield "seal", "Seal"
    if result.finding.readings or result.finding.equal_within:
        yield "reading", "How it was read"
    if result.finding.notes:
        yield "notes", "Notes"
