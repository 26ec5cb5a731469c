"""Checking tasks of the reconcile DAG: evaluate the invariants, and verify the content of stored files."""

import logging
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from cutover.pipeline_lake import PipelineLake
from cutover.settings import load_settings
from cutover_tasks.task_parts import fail_without_retries, load_task_definition

log = logging.getLogger("airflow.task")


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
