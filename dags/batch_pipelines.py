"""Recompute this pipeline from the log up to the stream's latest cut, and publish the result if the contract holds.

A scheduled run recomputes every closed window that received records since it was last computed, so a year of data is
one run, and a run without new records computes nothing. One run is active at a time.
With the parameters `from` and `to` (exclusive), or `day`, a run recomputes instead the closed windows that overlap this
range of event time. A date means a day in the time zone of daily windows, otherwise a UTC day; a backfill recomputes
the day of each of its dates. The task is skipped in KAPPA, and if no window of the range can be computed. Pipelines
with session windows reject a range, because a session may cross its bounds: the task fails.

The DAG is created paused: unpause it once `<pipeline>_stream` has committed an epoch.

Spark runs in a child process, in the pool `spark` (one slot: two local Spark drivers do not fit on a laptop).
Failed with "Nothing was published": an expectation of the contract failed, docs/runbooks/ContractFailed.md.
Failed otherwise: the log ends with the reason and its runbook. Each commit is atomic, so the run can be repeated.
A successful run updates the asset `<pipeline>_batch`, which triggers `<pipeline>_reconcile` at the cut of the run.
"""

from datetime import timedelta
from typing import Any

from airflow.sdk import CronTriggerTimetable, Param, dag, task
from dag_parts import batch_asset, pipelines

from cutover.definition.model.pipeline import Pipeline

PARAMS = {
    "from": Param(None, type=["null", "string"], description="Start of the range: a date, or a time (UTC)."),
    "to": Param(None, type=["null", "string"], description="End of the range, exclusive: a date, or a time."),
    "day": Param(None, type=["null", "string"], format="date", description="One day, in place of from and to."),
}


def batch_dag(pipeline: Pipeline) -> None:
    """Build the DAG of one pipeline's batch path."""
    asset = batch_asset(pipeline.name)

    @dag(
        dag_id=f"{pipeline.name}_batch",
        # Unpausing waits for the next scheduled time; by default, Airflow may run the previous one immediately.
        schedule=CronTriggerTimetable(pipeline.schedule, timezone="UTC", run_immediately=timedelta()),
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=True,
        params=PARAMS,
        doc_md=__doc__,
        tags=["cutover", "batch", pipeline.name],
        default_args={"owner": "cutover"},
    )
    def batch() -> None:
        @task(
            pool="spark",
            outlets=[asset],
            retries=2,  # for unexpected errors; rejected parameters and a failed contract are never retried
            retry_delay=timedelta(minutes=1),
            retry_exponential_backoff=True,
            execution_timeout=timedelta(hours=6),
            doc_md="Recomputes the dirty windows, checks the contract, publishes, and updates the asset.",
        )
        def recompute(**context: Any) -> dict[str, Any]:
            """Recompute the batch table up to the latest cut."""
            from cutover_tasks.batch_tasks import recompute_run  # noqa: PLC0415 -- the task's work, loaded when it runs

            run = recompute_run(pipeline.name, context)
            context["outlet_events"][asset].extra = run
            return run

        recompute()

    batch()


for definition in pipelines():
    batch_dag(definition)
