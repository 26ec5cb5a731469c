"""Advance this pipeline by one stage, LAMBDA to SHADOW or SHADOW to KAPPA, after a person has approved it.

Trigger this DAG manually. `propose` fails while a condition of the gate is not met; its log lists the missing
ones. Otherwise `approve` shows the evidence under **Required Actions** of the run and waits for your decision and your
reason. Your approval is valid only for this evidence: `apply` rejects it, and names the change, if a run in the
evidence has expired or no longer counts, the stage was changed meanwhile, or the definition, the stream's version or
`policy.audit` changed. Then trigger the DAG again. Before it moves the pipeline, `apply` compares both paths
again and evaluates checks and alerts, as `cutover gate <pipeline> advance` does.

`verify` checks the served rows after the move. If it fails, `undo` returns the pipeline to its previous
stage and fails too. If the move was not made, `undo` withdraws the proposal, so that a task which is still
running cannot make it. `finish` only makes the run fail if any task failed. Rejecting the proposal skips the remaining
tasks. A task that was killed is retried and never moves the pipeline twice.
Roll back at any time with `cutover gate <pipeline> rollback --why ...`: docs/runbooks/DivergenceUnexplained.md.
"""

from datetime import timedelta

from change_dag import make_change_dag
from dag_parts import pipelines

for pipeline in pipelines():
    build_dag = make_change_dag(
        pipeline.name,
        name="cutover",
        module="stage_tasks",
        question=f"Advance {pipeline.name}?",
        doc=__doc__,
        task_docs={
            "propose": "Evaluates the gate's conditions for the next stage; fails while one is not met.",
            "apply": "Moves the pipeline if the approval is still valid and both paths agree.",
            "verify": "Evaluates the checks again, and reads the rows that are served after the move.",
            "undo": "Rolls the stage back and fails, or withdraws the proposal.",
        },
        approval_timeout=timedelta(days=2),
        pool="spark",
    )
    build_dag()  # here: Airflow shows the calling file as the source of the DAG
