"""Keep the stream of this pipeline running: start or re-attach its driver, and watch its heartbeat.

The driver is a process of its own; this task only watches it, deferred, without a worker slot. **Purple means the
stream runs.** A restart of Airflow or of its triggerer leaves the driver alone. A driver that ends is started again
after 5, 10, 20, ... 300 seconds, and this log says "epoch 41 committed, resumed at 42". Airflow's retries are for a
lost worker: the next try attaches to the driver that lives.

**Start** it by triggering this DAG. **Stop** it by marking the task failed or success; clearing it stops the driver and
starts a new one. It has no schedule on purpose: `@continuous` would start the stream anew the moment a person stops it,
or when it refuses to go on.

Red means that a person has to look first. The log ends with the reason and its page: docs/runbooks/LogDataLost.md,
docs/runbooks/TopicIdentityChanged.md, docs/runbooks/StreamFenced.md, docs/runbooks/EpochHistoryBroken.md, or
docs/runbooks/StreamNotRunning.md after eight starts in a row without a new epoch.
"""

from datetime import timedelta

from airflow.sdk import dag
from cutover_tasks.driver_task import DriverTask
from definitions import pipelines

from cutover.definition.model.pipeline import Pipeline


def stream_dag(pipeline: Pipeline) -> None:
    """Make the DAG of one pipeline's streaming path."""

    @dag(
        dag_id=f"{pipeline.name}_stream",
        schedule=None,
        max_active_runs=1,
        catchup=False,
        is_paused_upon_creation=False,
        doc_md=__doc__,
        tags=["cutover", "stream", pipeline.name],
        default_args={"owner": "cutover"},
    )
    def stream() -> None:
        DriverTask(
            task_id="drive",
            pipeline=pipeline.name,
            retries=3,
            retry_delay=timedelta(seconds=10),
            execution_timeout=timedelta(minutes=5),  # of one start; watching has no end
            doc_md="Starts or re-attaches the driver, then waits, deferred, for as long as it lives.",
        )

    stream()


for definition in pipelines():
    stream_dag(definition)
