"""Comparing tasks of the reconcile DAG: one request per triggering event, and one report per request."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from cutover.definition.loading import catalogue
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings, load_settings
from cutover_tasks.task_parts import fail_without_retries, load_task_definition, requested_range

log = logging.getLogger("airflow.task")
Request = dict[str, Any]  # epoch (None: latest common one of both paths), from, to (ISO 8601 or None)


def list_requests(events: Iterable[Any], params: Mapping[str, Any]) -> list[Request]:
    """List one request per triggering event, oldest first; without an event, the one that `params` describe."""
    extras = [event.extra for event in sorted(events, key=lambda event: event.timestamp)] or [params]
    return [{name: extra.get(name) for name in ("epoch", "from", "to")} for extra in extras]


def make_label(request: Request) -> str:
    """Name a mapped task by epoch and range, for Airflow's grid."""
    epoch = "latest cut" if request["epoch"] is None else f"epoch {request['epoch']}"
    bounds = [text for text in (request["from"], request["to"]) if text]
    return f"{epoch}, {' to '.join(bounds)}" if bounds else epoch


def compare_paths(pipeline: str, request: Request, context: Mapping[str, Any]) -> dict[str, Any]:
    """Compare both paths and store the report.

    Returns:
        `verdict`, `exit_code`, `sentence` and `report` (its address). Each is also pushed as an XCom before a failing
        verdict fails the task.

    Raises:
        AirflowFailException: The verdict is not acceptable, or nothing could be compared.
    """
    from cutover.reconcile.run import run_reconciliation  # noqa: PLC0415 -- brings duckdb and deltalake: only where a task runs

    with fail_without_retries():
        settings = load_settings()
        definition = catalogue.get(settings, pipeline)
        run_range = requested_range(request, definition.window, run_type="manual", logical_date=None)
        comparison = run_reconciliation(
            PipelineLake(settings, definition), start=run_range.start, end=run_range.end, epoch=request["epoch"]
        )
    finding, report_address = comparison.finding, locate_report(settings, comparison.run.report_path)
    result = {
        "verdict": str(finding.verdict),
        "exit_code": finding.exit_code,
        "sentence": finding.sentence,
        "report": report_address,
    }
    for name, value in result.items():
        context["ti"].xcom_push(key=name, value=value)
    log.info("%s", finding.sentence)
    log.info("report: %s", report_address)
    if comparison.run.scope_note is not None:  # the comparison of an older cut: a retried, cleared or delayed task
        log.warning("%s", comparison.run.scope_note)
    _report_open_differences(settings, pipeline, context)
    if finding.exit_code != 0:
        page = f"\nRunbook: docs/runbooks/{finding.runbook}.md" if finding.runbook else ""
        msg = f"{finding.verdict}: {finding.sentence}\nReport: {report_address}{page}"
        raise AirflowFailException(msg)
    return result


def _report_open_differences(settings: Settings, pipeline: str, context: Mapping[str, Any]) -> None:
    """Log the unexplained differences by state, and push the number of open ones as the XCom `open`."""
    from cutover.reconcile.cli.differences import count_states  # noqa: PLC0415 -- as above
    from cutover.reconcile.verdict import history  # noqa: PLC0415

    differences = history.read_open_differences(
        PipelineLake(settings, load_task_definition(settings, pipeline))
    ).values()
    context["ti"].xcom_push(key="open", value=sum(difference.state == "open" for difference in differences))
    if differences:
        log.info("%s; `cutover differences %s` lists them", count_states(pipeline, differences), pipeline)


def locate_report(settings: Settings, path: str | None) -> str:
    """Return the URL of a report, or its file if no base URL is set; `path` is relative to the reports folder."""
    if path is None:
        return ""
    if settings.report_base_url:
        return f"{settings.report_base_url.rstrip('/')}/{path}"
    return str(settings.reports_dir / path)
