"""Reports of tests: made or changed by the names of fields, whichever part of a report each field belongs to."""

from dataclasses import fields, replace
from typing import Any

from cutover.reconcile.result.finding import Finding
from cutover.reconcile.result.report import ComparisonOutcome, Report, RunMetadata

_FINDING = {field.name for field in fields(Finding)}
_RUN = {field.name for field in fields(RunMetadata)}


def make_report(**values: Any) -> Report:
    """Build a report from fields of its finding, of its run, and of the report itself."""
    finding, run, additions = _split(values)
    return Report(finding=Finding(**finding), run=RunMetadata(**run), **additions)


def change_report(report: Report, /, **values: Any) -> Report:
    """Return a report with other values of some fields of its finding, its run, or its own."""
    finding, run, additions = _split(values)
    return replace(report, finding=replace(report.finding, **finding), run=replace(report.run, **run), **additions)


def make_outcome(report: Report, **changes: Any) -> ComparisonOutcome:
    """Build the outcome that a report describes."""
    outcome = ComparisonOutcome(
        finding=report.finding, tables=report.run.tables, settlement=report.settlement, early=report.early
    )
    return replace(outcome, **changes)


def _split(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    finding = {name: value for name, value in values.items() if name in _FINDING}
    run = {name: value for name, value in values.items() if name in _RUN}
    return finding, run, {name: value for name, value in values.items() if name not in finding and name not in run}
