"""Tasks that compare both paths, and that check stored results.

The reconcile DAG makes one request per triggering event, and one report per request. The checks audit windows and roll
back a regression, evaluate the invariants and verify files.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from cutover.clock import SystemClock
from cutover.counts import count_clause
from cutover.definition.loading import catalogue
from cutover.definition.model.policy import Stage
from cutover.infra.processes.family import ChildEnd, run_child
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings, load_settings
from cutover_tasks.task_parts import fail_without_retries, load_task_definition, requested_range

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


log = logging.getLogger("airflow.task")
_AGREES, _REGRESSION, _INVALID = 0, 1, 2  # exit codes of the command line
_NOTHING_NEW = "nothing_new"  # a state


def audit_sample(pipeline: str) -> dict[str, Any]:
    """Audit a sample of final windows in a child process and return the audit as it was recorded.

    Raises:
        AirflowSkipException: The pipeline is not in KAPPA (in other stages all windows are compared), its policy has
            no audit, or no window became final since the last audit.
        AirflowFailException: The audit was rejected or could not be completed; the message has the reason.
        RuntimeError: The child process ended unexpectedly.
    """
    from cutover.lake.control.served import current_stage  # noqa: PLC0415 -- brings duckdb: only where it runs

    with fail_without_retries():
        settings = load_settings()
        definition = load_task_definition(settings, pipeline)
        stage = current_stage(PipelineLake(settings, definition))
    if stage is not Stage.KAPPA:
        msg = f"{pipeline} is in {stage}: `{pipeline}_reconcile` compares both paths."
        raise AirflowSkipException(msg)
    if definition.policy.audit is None:
        msg = f"{pipeline} is not audited: its policy says `audit=None`."
        raise AirflowSkipException(msg)
    audit_result = parse_audit(run_child(["audit", "windows", pipeline, "--json"], on_line=log.info))
    if audit_result["state"] == _NOTHING_NEW:
        raise AirflowSkipException(audit_result["reason"])
    return audit_result


def parse_audit(end: ChildEnd) -> dict[str, Any]:
    """Return the audit that the command printed; raise as `audit_sample` does for a failed one."""
    audit_result = end.value if isinstance(end.value, dict) else {}
    if end.exit_code in {_AGREES, _REGRESSION} and "state" in audit_result:
        log.info("%s", audit_result["reason"])
        return dict(audit_result)
    if end.exit_code == _INVALID:
        raise AirflowFailException(audit_result.get("reason") or end.message)
    msg = f"`cutover audit windows` ended with {end.exit_code}: {end.message}"
    raise RuntimeError(msg)


def roll_back_after_audit(pipeline: str, audit_result: Mapping[str, Any]) -> None:
    """Move the pipeline to LAMBDA with the audit as evidence, unless it was moved already.

    Raises:
        AirflowSkipException: The audit found no regression.
    """
    if audit_result["state"] != "regression":
        msg = f"Audit of {pipeline}: the sample has no regression."
        raise AirflowSkipException(msg)
    from cutover.reconcile.gate import stage  # noqa: PLC0415 -- as above

    with fail_without_retries():
        settings = load_settings()
        rolled_back = stage.roll_back_regression(
            PipelineLake(settings, load_task_definition(settings, pipeline)), SystemClock()
        )
    log.info("%s %s", pipeline, "is back in LAMBDA" if rolled_back else "was moved already")


def fail_with_regression(pipeline: str, audit_result: Mapping[str, Any]) -> None:
    """Fail the run with the number of rows that differ and the runbook.

    Raises:
        AirflowFailException: Always, because an audit with a regression must not end as a success.
    """
    example = f", such as {audit_result['examples'][0]}" if audit_result["examples"] else ""
    rows = count_clause(audit_result["unexplained"], "row of final windows", "differs", "differ")
    msg = f"{pipeline}: {rows} from a recomputation{example}."
    raise AirflowFailException(msg + " Batch serves again: docs/runbooks/RetirementRegression.md.")


def verify_tables(pipeline: str) -> dict[str, Any]:
    """Evaluate the invariants of a pipeline's tables and record the result.

    Returns:
        `exit_code` and `checks` (name to held, violated, not_provable or waived).

    Raises:
        AirflowFailException: A check is violated, or none can be evaluated.
    """
    from cutover.reconcile.verify.record import verify_and_record  # noqa: PLC0415 -- brings duckdb and deltalake: only where a task runs

    with fail_without_retries():
        settings = load_settings()
        verification = verify_and_record(PipelineLake(settings, load_task_definition(settings, pipeline)))
    for result in verification.checks.values():
        log.info("%s %s: %s %s", result.name, result.title, result.state, result.reason or result.coverage)
    texts = [f"{violation.check}: {violation.text}" for violation in verification.violations]
    if texts or verification.error:
        page = f"\nRunbook: docs/runbooks/{verification.runbook}.md" if verification.runbook else ""
        raise AirflowFailException("\n".join([*texts, *filter(None, [verification.error])]) + page)
    return {
        "exit_code": verification.exit_code,
        "checks": {name: str(check.state) for name, check in verification.checks.items()},
    }


def scrub_tables(pipeline: str) -> dict[str, Any]:
    """Verify the content of the next files of a pipeline's tables.

    Returns:
        Numbers of verified files and bytes, and whether all files have been verified.

    Raises:
        AirflowFailException: The content of a file differs from what was committed.
    """
    from cutover.lake.integrity.scrub import scrub_files  # noqa: PLC0415 -- brings duckdb and deltalake: only where a task runs

    with fail_without_retries():
        settings = load_settings()
        scrub_result = scrub_files(PipelineLake(settings, load_task_definition(settings, pipeline)))
    if scrub_result.damaged:
        raise AirflowFailException("\n".join([*scrub_result.damaged, "Runbook: docs/runbooks/TableUnreadable.md"]))
    return scrub_result.to_json()
