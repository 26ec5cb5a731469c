"""Recompute this pipeline from the log, up to the stream's newest cut, and publish what the contract lets pass.

By its schedule, one run at a time: a run takes every closed window that records touched since it was last computed, so
a year of data is one run and a quiet hour is none. Parameters `from` and `to` (end exclusive), or `day`, take instead
the closed windows that a range of event time touches. A date is a day of the daily windows, else a UTC day;
a backfill takes the day of each of its dates. A range of which no window can be computed, and KAPPA, skip the task.
Sessions may lie across the ends of a range: for them one is refused, and the task fails.

New installations have it paused: unpause it once `<pipeline>_stream` has committed something.

Spark runs in a child process, in the pool `spark` (one slot: two local Spark drivers at once do not fit a laptop).
Red with "Nothing was published": an expectation of the definition's contract failed, docs/runbooks/ContractFailed.md.
Red otherwise: the log ends with the reason and the name of its page. Nothing is half-written; run it again.
A run that ends well updates the asset `<pipeline>_batch`, and `<pipeline>_reconcile` compares both paths at its cut.
"""

from datetime import timedelta
from typing import Any

from airflow.sdk import CronTriggerTimetable, Param, dag, task
from dag_parts import batch_asset
from definitions import pipelines

from cutover.definition.model.pipeline import Pipeline

PARAMS = {
    "from": Param(None, type=["null", "string"], description="Start of the range: a date, or a time (UTC)."),
    "to": Param(None, type=["null", "string"], description="End of the range, exclusive: a date, or a time."),
    "day": Param(None, type=["null", "string"], format="date", description="One day, in place of from and to."),
}


def batch_dag(pipeline: Pipeline) -> None:
    """Make the DAG of one pipeline's batch path."""
    asset = batch_asset(pipeline.name)

    @dag(
        dag_id=f"{pipeline.name}_batch",
        # Unpausing waits for the next tick: the default would at times make up for the last one at once.
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
            retries=2,  # for what nobody expected; a refusal and a failed contract are not tried again
            retry_delay=timedelta(minutes=1),
            retry_exponential_backoff=True,
            execution_timeout=timedelta(hours=6),
            doc_md="Recomputes the dirty windows, checks the contract, publishes, and announces range and cut.",
        )
        def recompute(**context: Any) -> dict[str, Any]:
            """Recompute the batch table up to the newest cut."""
            from cutover_tasks.batch_task import recompute_run  # noqa: PLC0415 -- the task's work, loaded when it runs

            run = recompute_run(pipeline.name, context)
            context["outlet_events"][asset].extra = run
            return run

        recompute()

    batch()


for definition in pipelines():
    batch_dag(definition)
