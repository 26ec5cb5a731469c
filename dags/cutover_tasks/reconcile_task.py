"""What comparing tasks of the reconcile DAG do: a request for each triggering event, a report for each."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from cutover.definition.loading import catalogue
from cutover.settings import Settings, load_settings
from cutover_tasks.run_range import requested_range
from cutover_tasks.task_definitions import find_definition
from cutover_tasks.task_errors import fail_without_retries

log = logging.getLogger("airflow.task")
Request = dict[str, Any]  # epoch (None: newest that both paths have), from, to (ISO 8601 or None)


def requests(events: Iterable[Any], params: Mapping[str, Any]) -> list[Request]:
    """Return one request for each triggering event, oldest first; without an event, the one that `params` describe."""
    extras = [event.extra for event in sorted(events, key=lambda event: event.timestamp)] or [params]
    return [{name: extra.get(name) for name in ("epoch", "from", "to")} for extra in extras]


def label(request: Request) -> str:
    """Name a mapped task by epoch and range, as Airflow's grid shows it."""
    epoch = "newest cut" if request["epoch"] is None else f"epoch {request['epoch']}"
    bounds = [text for text in (request["from"], request["to"]) if text]
    return f"{epoch}, {' to '.join(bounds)}" if bounds else epoch


def report(pipeline: str, request: Request, context: Mapping[str, Any]) -> dict[str, Any]:
    """Compare both paths and store the report.

    Returns:
        `verdict`, `exit_code`, `sentence`, `report` (its address), XComs too, before a failing verdict fails the task.

    Raises:
        AirflowFailException: The verdict is not acceptable, or nothing could be compared.
    """
    from cutover.reconcile.run import reconcile  # noqa: PLC0415 -- brings duckdb and deltalake: only where a task runs

    with fail_without_retries():
        settings = load_settings()
        definition = catalogue.get(settings, pipeline)
        run_range = requested_range(request, definition.window, run_type="manual", logical_date=None)
        found = reconcile(settings, definition, start=run_range.start, end=run_range.end, epoch=request["epoch"])
    report_address = address(settings, found.run.report_path)
    result = {
        "verdict": str(found.finding.verdict),
        "exit_code": found.finding.exit_code,
        "sentence": found.finding.sentence,
        "report": report_address,
    }
    for name, value in result.items():
        context["ti"].xcom_push(key=name, value=value)
    log.info("%s", found.finding.sentence)
    log.info("report: %s", report_address)
    if found.run.speaks_for is not None:  # a retried or cleared task, or one that comes late
        log.warning("%s", found.run.speaks_for)
    _show_open(settings, pipeline, context)
    if found.finding.exit_code != 0:
        page = f"\nRunbook: docs/runbooks/{found.finding.runbook}.md" if found.finding.runbook else ""
        msg = f"{found.finding.verdict}: {found.finding.sentence}\nReport: {report_address}{page}"
        raise AirflowFailException(msg)
    return result


def _show_open(settings: Settings, pipeline: str, context: Mapping[str, Any]) -> None:
    """Log which differences nothing explains, in their states, and push how many are open as the XCom `open`."""
    from cutover.reconcile.cli.recorded.differences import count_states  # noqa: PLC0415 -- as above
    from cutover.reconcile.verdict import history  # noqa: PLC0415

    differences = history.open_differences(settings, find_definition(settings, pipeline)).values()
    context["ti"].xcom_push(key="open", value=sum(difference.state == "open" for difference in differences))
    if differences:
        log.info("%s; `cutover differences %s` lists them", count_states(pipeline, differences), pipeline)


def address(settings: Settings, path: str | None) -> str:
    """Return where a person opens a report that lies in the reports folder."""
    if path is None:
        return ""
    if settings.report_base_url:
        return f"{settings.report_base_url.rstrip('/')}/{path}"
    return str(settings.reports_dir / path)
