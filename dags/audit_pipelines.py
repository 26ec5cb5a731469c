"""Recompute a random sample of this pipeline's final windows from the log, once a day while it is in KAPPA.

`audit_windows` samples as many windows as `policy.audit` requires and recomputes them from the log with the batch path,
in tables that no reader sees. It compares the results and records the seed, the sample and the differences. The task is
skipped unless the pipeline is in KAPPA, its policy has an audit, and a window became final since the last audit. It
fails if no audit is possible: the policy cannot be met, records have left the log, or a table cannot be read.

If rows differ without an explanation, the alert RetirementRegression fires and three tasks follow:
`roll_back_regression` moves the pipeline to LAMBDA (a row of the gate's history, with the audit as its evidence),
`start_batch` triggers `<pipeline>_batch`, which computes the windows that batch has missed from the log, and
`report_regression` fails the run: docs/runbooks/RetirementRegression.md.
From a terminal: `cutover audit windows <pipeline>`.
"""

from datetime import timedelta
from typing import Any

from airflow.sdk import CronTriggerTimetable, dag, task
from dag_parts import make_settings, pipelines, start_batch

from cutover.definition.model.pipeline import Pipeline

SETTINGS = make_settings(__doc__, retry_delay=timedelta(minutes=1), timeout=timedelta(hours=2))


def audit_dag(pipeline: Pipeline) -> None:
    """Build the DAG that audits one pipeline."""
    daily = CronTriggerTimetable("@daily", timezone="UTC", run_immediately=timedelta())
    tags = ["cutover", "audit", pipeline.name]

    @dag(dag_id=f"{pipeline.name}_audit", schedule=daily, tags=tags, **SETTINGS)
    def audit() -> None:
        @task(pool="spark", doc_md="Audits a sample of final windows; skipped unless the pipeline is in KAPPA.")
        def audit_windows() -> dict[str, Any]:
            from cutover_tasks.check_tasks import audit_sample  # noqa: PLC0415 -- the task's work, loaded when it runs

            return audit_sample(pipeline.name)

        @task(doc_md="Moves the pipeline to LAMBDA if the audit found a regression; skipped otherwise.")
        def roll_back_regression(audit_result: dict[str, Any]) -> None:
            from cutover_tasks.check_tasks import roll_back_after_audit  # noqa: PLC0415 -- the task's work, loaded when it runs

            roll_back_after_audit(pipeline.name, audit_result)

        @task(doc_md="Fails the run, with the number of rows that differ and the runbook to open.")
        def report_regression(audit_result: dict[str, Any]) -> None:
            from cutover_tasks.check_tasks import fail_with_regression  # noqa: PLC0415 -- the task's work, loaded when it runs

            fail_with_regression(pipeline.name, audit_result)

        audit_result = audit_windows()
        roll_back_regression(audit_result) >> start_batch(pipeline.name) >> report_regression(audit_result)

    audit()


for definition in pipelines():
    audit_dag(definition)
