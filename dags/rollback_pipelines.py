"""Serve this pipeline from its batch path again: roll back from SHADOW or KAPPA to LAMBDA, or from KAPPA to SHADOW.

Trigger this DAG manually; the reason (`why`) is required and recorded. `move_back` appends one row to the gate's
history. It needs no evidence, log, driver or Spark and takes seconds; readers get the rows of the new stage with the
same commit. Then `start_batch` triggers `<pipeline>_batch`, which catches up from the log; until it is done, windows
that batch has not computed are served from the stream. A task that was killed is retried and never moves the pipeline
twice. If the pipeline is in the stage `to` already, it stays there, and a pending proposal to advance is invalidated.
If wrong rows are served: docs/runbooks/RetirementRegression.md.
"""

from datetime import timedelta
from typing import Any

from airflow.sdk import Param, dag, get_current_context, task
from dag_parts import make_settings, pipelines, start_batch

from cutover.definition.model.pipeline import Pipeline

PARAMS = {
    "why": Param(type="string", minLength=1, maxLength=500, description="Reason, recorded with the move."),
    "to": Param("LAMBDA", enum=["LAMBDA", "SHADOW"], description="LAMBDA: batch serves. SHADOW: batch audits."),
}

SETTINGS = make_settings(__doc__, retry_delay=timedelta(seconds=5), timeout=timedelta(minutes=5))


def rollback_dag(pipeline: Pipeline) -> None:
    """Build the DAG that rolls one pipeline back to its batch path."""
    tags = ["cutover", "rollback", pipeline.name]

    @dag(dag_id=f"{pipeline.name}_rollback", schedule=None, tags=tags, params=PARAMS, **SETTINGS)
    def rollback() -> None:
        @task(doc_md="Moves the pipeline back; a repeated run does not move it twice.")
        def move_back(**context: Any) -> str:
            from cutover_tasks.moves.stage_tasks import move_back_to  # noqa: PLC0415 -- the task's work, loaded when it runs

            run = get_current_context()["dag_run"]
            return move_back_to(pipeline.name, context["params"], str(run.run_id), run.triggering_user_name)

        move_back() >> start_batch(pipeline.name)

    rollback()


for definition in pipelines():
    rollback_dag(definition)
