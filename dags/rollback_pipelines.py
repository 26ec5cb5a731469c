"""Let the batch path of this pipeline serve again, at once: from SHADOW or KAPPA to LAMBDA, or from KAPPA to SHADOW.

By hand alone; `why` is asked for and kept. One row is appended to the gate's history, which needs no evidence, no log,
no driver and no Spark: `move_back` takes seconds, and what readers get follows in the same commit. `start_batch` then
starts `<pipeline>_batch`, which catches batch up from the log; until it has, windows that batch has not computed come
from the stream. A killed task is run again: a move that was made is not made twice. In the stage that `to` names it
stays there, and a move on that waits for a person cannot be made any more. Where rows that are served are wrong:
docs/runbooks/RetirementRegression.md.
"""

from datetime import timedelta
from typing import Any

from airflow.sdk import Param, dag, get_current_context, task
from dag_parts import make_settings, start_batch
from definitions import pipelines

from cutover.definition.model.pipeline import Pipeline

PARAMS = {
    "why": Param(type="string", minLength=1, maxLength=500, description="Kept with the move."),
    "to": Param("LAMBDA", enum=["LAMBDA", "SHADOW"], description="LAMBDA: batch serves. SHADOW: it audits."),
}

SETTINGS = make_settings(__doc__, retry_delay=timedelta(seconds=5), timeout=timedelta(minutes=5))


def rollback_dag(pipeline: Pipeline) -> None:
    """Make the DAG that brings the batch path of one pipeline back."""
    tags = ["cutover", "rollback", pipeline.name]

    @dag(dag_id=f"{pipeline.name}_rollback", schedule=None, tags=tags, params=PARAMS, **SETTINGS)
    def rollback() -> None:
        @task(doc_md="Moves back, unless that is done.")
        def move_back(**context: Any) -> str:
            from cutover_tasks.moves.rollback_task import move_back_to  # noqa: PLC0415 -- the task's work, loaded when it runs

            run = get_current_context()["dag_run"]
            return move_back_to(pipeline.name, context["params"], str(run.run_id), run.triggering_user_name)

        move_back() >> start_batch(pipeline.name)

    rollback()


for definition in pipelines():
    rollback_dag(definition)
