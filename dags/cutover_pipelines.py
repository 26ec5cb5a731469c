"""Move this pipeline one stage on, from LAMBDA to SHADOW or from SHADOW to KAPPA, once a person has approved it here.

By hand alone. `collect_evidence` is red while the gate asks for something; its log lists what. Else `approve` waits for
you (**Required Actions** of the run): it shows the evidence and takes a reason. What you approve is bound to that
evidence: if a run of it has expired or no longer counts, another move was made, or the definition, the version of the
stream or `policy.audit` is another one, `move_stage` is refused and says what changed; start the DAG again. Before it
moves, `move_stage` compares both paths anew, judges the checks and looks at the alerts, as `cutover gate <pipeline>
advance` does.

`verify_move` looks once more at what is served then. If it is red, `put_stage_back` puts the stage back and is red
itself; where no move was made it withdraws what was proposed, so that no task which still runs can make it. `finish`
does nothing: the run is red wherever a task was. Reject skips the rest. A killed task is run again: a move that was
made is not made twice.
Back at any time: `cutover gate <pipeline> rollback --why ...`, docs/runbooks/DivergenceUnexplained.md.
"""

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import dag, task
from dag_parts import ask_person, make_settings
from definitions import pipelines

from cutover.definition.model.pipeline import Pipeline

ANSWER_WITHIN = timedelta(days=2)

SETTINGS = make_settings(__doc__, retry_delay=timedelta(seconds=30), timeout=timedelta(hours=2))


def cutover_dag(pipeline: Pipeline) -> None:
    """Make the DAG that moves one pipeline a stage on, with a person's approval."""

    @dag(dag_id=f"{pipeline.name}_cutover", schedule=None, tags=["cutover", pipeline.name], **SETTINGS)
    def cutover() -> None:
        @task(doc_md="Reads what speaks for the next stage; red while something is missing.")
        def collect_evidence() -> dict[str, Any]:
            from cutover_tasks.moves.cutover_task import collect  # noqa: PLC0415 -- the task's work, loaded when it runs

            return collect(pipeline.name)

        @task(pool="spark", doc_md="Moves, if what was approved still stands and both paths agree now.")
        def move_stage(proposal: dict[str, Any], answer: dict[str, Any]) -> str:
            from cutover_tasks.moves.cutover_task import move_on  # noqa: PLC0415 -- the task's work, loaded when it runs

            return move_on(pipeline.name, proposal, answer)

        @task(doc_md="Judges the checks and the alerts once more, and reads what is served.")
        def verify_move(stage: str) -> str:
            from cutover_tasks.moves.cutover_end import verify_served  # noqa: PLC0415 -- the task's work, loaded when it runs

            return verify_served(pipeline.name, stage)

        @task(trigger_rule="one_failed", doc_md="Puts the stage back and is red, or withdraws the proposal.")
        def put_stage_back(proposal: dict[str, Any] | None) -> None:
            from cutover_tasks.moves.cutover_end import put_back  # noqa: PLC0415 -- the task's work, loaded when it runs

            put_back(pipeline.name, proposal)

        proposal = collect_evidence()
        approve = ask_person(
            f"Move {pipeline.name} on?", evidence="collect_evidence", within=ANSWER_WITHIN, kept_with="move"
        )
        proposal >> approve
        finish = EmptyOperator(task_id="finish", doc_md="Red where a task before it was: Airflow asks the last ones.")
        verify_move(move_stage(proposal, approve.output)) >> [put_stage_back(proposal), finish]

    cutover()


for definition in pipelines():
    cutover_dag(definition)
