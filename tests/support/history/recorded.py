"""A history and reports without an engine: a comparison is written and recorded as `cutover reconcile` does it."""

from datetime import UTC, datetime

from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.report import files
from cutover.reconcile.result.report import Report
from cutover.reconcile.verdict import history
from tests.support.history.reports import change_report, make_outcome


def record(lake: PipelineLake, report: Report) -> str:
    """Write the report of a comparison, record it, and return the name of its page."""
    stem = f"{lake.name}/{report.run.run_id}"
    named_report = change_report(report, pipeline=lake.name, report=f"{stem}.json", page=f"{stem}.html")
    path, outcome = files.write_report(lake.settings, named_report), make_outcome(named_report)
    entry = history.find_entry(
        lake.settings,
        outcome,
        run_id=named_report.run.run_id,
        fingerprint=result_fingerprint(lake.pipeline),
        version=None,
        at=datetime.now(UTC),
    )
    history.record_comparison(lake.settings, outcome, entry, named_report.run.report_path)
    return path.name
