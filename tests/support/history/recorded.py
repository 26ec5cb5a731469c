"""A history and reports without an engine: a comparison is written and recorded as `cutover reconcile` does it."""

from datetime import UTC, datetime

from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.reconcile.report import files
from cutover.reconcile.result.report import Report
from cutover.reconcile.verdict import history
from cutover.settings import Settings
from tests.support.history.reports import change_report, make_outcome


def record(settings: Settings, pipeline: Pipeline, report: Report) -> str:
    """Write the report of a comparison, record it, and return the name of its page."""
    stem = f"{pipeline.name}/{report.run.run_id}"
    named_report = change_report(report, pipeline=pipeline.name, report=f"{stem}.json", page=f"{stem}.html")
    path, outcome = files.write_report(settings, named_report), make_outcome(named_report)
    entry = history.find_entry(
        settings,
        outcome,
        run_id=named_report.run.run_id,
        fingerprint=result_fingerprint(pipeline),
        version=None,
        at=datetime.now(UTC),
    )
    history.record_comparison(settings, outcome, entry, named_report.run.report_path)
    return path.name
