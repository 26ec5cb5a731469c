"""Advance this pipeline by one stage, LAMBDA to SHADOW or SHADOW to KAPPA, after a person has approved it.

Trigger this DAG manually. `collect_evidence` fails while a condition of the gate is not met; its log lists the missing
ones. Otherwise `approve` shows the evidence under **Required Actions** of the run and waits for your decision and your
reason. Your approval is valid only for this evidence: `move_stage` rejects it, and names the change, if a run in the
evidence has expired or no longer counts, the stage was changed meanwhile, or the definition, the stream's version or
`policy.audit` changed. Then trigger the DAG again. Before it moves the pipeline, `move_stage` compares both paths
again and evaluates checks and alerts, as `cutover gate <pipeline> advance` does.

`verify_move` checks the served rows after the move. If it fails, `roll_back_stage` returns the pipeline to its previous
stage and fails too. If the move was not made, `roll_back_stage` withdraws the proposal, so that a task which is still
running cannot make it. `finish` only makes the run fail if any task failed. Rejecting the proposal skips the remaining
tasks. A task that was killed is retried and never moves the pipeline twice.
Roll back at any time with `cutover gate <pipeline> rollback --why ...`: docs/runbooks/DivergenceUnexplained.md.
"""

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import dag, task
from dag_parts import make_approval, make_settings
from definitions import pipelines

from cutover.definition.model.pipeline import Pipeline

APPROVAL_TIMEOUT = timedelta(days=2)

SETTINGS = make_settings(__doc__, retry_delay=timedelta(seconds=30), timeout=timedelta(hours=2))


def cutover_dag(pipeline: Pipeline) -> None:
    """Build the DAG that advances one pipeline by a stage, with a person's approval."""

    @dag(dag_id=f"{pipeline.name}_cutover", schedule=None, tags=["cutover", pipeline.name], **SETTINGS)
    def cutover() -> None:
        @task(doc_md="Evaluates the gate's conditions for the next stage; fails while one is not met.")
        def collect_evidence() -> dict[str, Any]:
            from cutover_tasks.moves.cutover_task import collect  # noqa: PLC0415 -- the task's work, loaded when it runs

            return collect(pipeline.name)

        @task(pool="spark", doc_md="Moves the pipeline if the approval is still valid and both paths agree.")
        def move_stage(proposal: dict[str, Any], answer: dict[str, Any]) -> str:
            from cutover_tasks.moves.cutover_task import move_approved  # noqa: PLC0415 -- the task's work, loaded when it runs

            return move_approved(pipeline.name, proposal, answer)

        @task(doc_md="Evaluates the checks again, and reads the rows that are served after the move.")
        def verify_move(stage: str) -> str:
            from cutover_tasks.moves.cutover_task import verify_served  # noqa: PLC0415 -- the task's work, loaded when it runs

            return verify_served(pipeline.name, stage)

        @task(trigger_rule="one_failed", doc_md="Rolls the stage back and fails, or withdraws the proposal.")
        def roll_back_stage(proposal: dict[str, Any] | None) -> None:
            from cutover_tasks.moves.cutover_task import roll_back_unverified  # noqa: PLC0415 -- the task's work, loaded when it runs

            roll_back_unverified(pipeline.name, proposal)

        proposal = collect_evidence()
        approve = make_approval(
            f"Advance {pipeline.name}?", evidence="collect_evidence", timeout=APPROVAL_TIMEOUT, recorded_with="move"
        )
        proposal >> approve
        finish = EmptyOperator(task_id="finish", doc_md="Makes the run fail if a task failed.")
        verify_move(move_stage(proposal, approve.output)) >> [roll_back_stage(proposal), finish]

    cutover()


for definition in pipelines():
    cutover_dag(definition)
