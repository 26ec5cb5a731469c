"""Tasks that check stored results: audit windows and roll back a regression, evaluate the invariants, verify files."""

import logging
from collections.abc import Mapping
from typing import Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from cutover.clock import SystemClock
from cutover.counts import count_clause
from cutover.definition.model.policy import Stage
from cutover.infra.processes.child import ChildEnd, run_child
from cutover.pipeline_lake import PipelineLake
from cutover.settings import load_settings
from cutover_tasks.task_parts import fail_without_retries, load_task_definition

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
