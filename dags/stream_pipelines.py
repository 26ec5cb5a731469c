"""Keep the stream of this pipeline running: start its driver or attach to it, and watch its heartbeat.

The driver is a separate process; the task only watches it, deferred, without a worker slot. **The state deferred
(purple) means that the stream is running.** Restarts of Airflow or of its triggerer do not affect the driver. If the
driver ends, it is restarted after 5, 10, 20, ... 300 seconds, and the task's log shows "epoch 41 committed, resumed at
42". Airflow's retries cover a lost worker: the next try attaches to the running driver.

**Start** the stream by triggering this DAG. **Stop** it by marking the task failed or success; clearing the task stops
the driver and starts a new one. The DAG has no schedule: `@continuous` would restart the stream as soon as a person
stops it, or when the driver fails with an error that needs a person.

Failed means that a person has to act before the stream can resume. The log ends with the reason and its runbook:
docs/runbooks/LogDataLost.md, docs/runbooks/TopicIdentityChanged.md, docs/runbooks/StreamFenced.md,
docs/runbooks/EpochHistoryBroken.md, or docs/runbooks/StreamNotRunning.md after eight starts in a row without a new
epoch.
"""

from datetime import timedelta

from airflow.sdk import dag
from dag_parts import pipelines
from heartbeat_trigger import DriverTask

from cutover.definition.model.pipeline import Pipeline


def stream_dag(pipeline: Pipeline) -> None:
    """Build the DAG of one pipeline's streaming path."""

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
            execution_timeout=timedelta(minutes=5),  # for one start; the deferred watch has no timeout
            doc_md="Starts the driver or attaches to it, then stays deferred as long as the driver is alive.",
        )

    stream()


for definition in pipelines():
    stream_dag(definition)
