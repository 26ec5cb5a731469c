"""Compare, each day in KAPPA, a random sample of the windows that became final with the log.

`audit_windows` draws as many windows as `policy.audit` asks for, computes them by the batch path from the log, in
tables that nobody is served, compares, and records seed, sample and findings. It skips unless the pipeline is in KAPPA,
its policy has an audit and a window became final since the last one, and is red where nothing can be said: the policy
cannot be met, records have left the log, a table cannot be read.

If rows differ and nothing explains them, the alert RetirementRegression fires, `put_back` moves the pipeline to LAMBDA
(a row of the gate's history, with the audit as its evidence), `start_batch` starts `<pipeline>_batch`, which computes
from the log what batch has missed, and `report_regression` is red: docs/runbooks/RetirementRegression.md.
By hand: `cutover audit windows <pipeline>`.
"""

from datetime import timedelta
from typing import Any

from airflow.sdk import CronTriggerTimetable, dag, task
from dag_parts import make_settings, start_batch
from definitions import pipelines

from cutover.definition.model.pipeline import Pipeline

SETTINGS = make_settings(__doc__, retry_delay=timedelta(minutes=1), timeout=timedelta(hours=2))


def audit_dag(pipeline: Pipeline) -> None:
    """Make the DAG that audits one pipeline."""
    daily = CronTriggerTimetable("@daily", timezone="UTC", run_immediately=timedelta())
    tags = ["cutover", "audit", pipeline.name]

    @dag(dag_id=f"{pipeline.name}_audit", schedule=daily, tags=tags, **SETTINGS)
    def audit() -> None:
        @task(pool="spark", doc_md="Draws, recomputes, compares and records; skips unless the pipeline is in KAPPA.")
        def audit_windows() -> dict[str, Any]:
            from cutover_tasks.audit_task import audit_sample  # noqa: PLC0415 -- the task's work, loaded when it runs

            return audit_sample(pipeline.name)

        @task(doc_md="Moves to LAMBDA if the audit found a regression; skips if it agrees.")
        def put_back(audit_result: dict[str, Any]) -> None:
            from cutover_tasks.audit_task import put_back_regression  # noqa: PLC0415 -- the task's work, loaded when it runs

            put_back_regression(pipeline.name, audit_result)

        @task(doc_md="Is red: says what was found, and which page to open.")
        def report_regression(audit_result: dict[str, Any]) -> None:
            from cutover_tasks.audit_task import report  # noqa: PLC0415 -- the task's work, loaded when it runs

            report(pipeline.name, audit_result)

        audit_result = audit_windows()
        put_back(audit_result) >> start_batch(pipeline.name) >> report_regression(audit_result)

    audit()


for definition in pipelines():
    audit_dag(definition)
