"""Serve this changed definition in place of the one that its change note names, after a person has approved it.

Only for definitions with `change=Change(of=...)`. First run `cutover replay <pipeline>` and trigger
`<pipeline>_stream`, then trigger this DAG manually. `propose` compares both definitions at their latest
common cut. It fails if they differ in anything that the note does not declare, or cannot be compared. Otherwise
`approve` shows the comparison under **Required Actions** of the run and waits for your decision and your reason.
`apply` rejects the approval, and names the change, if another version or definition is served meanwhile, or
a definition or its note changed. Then trigger the DAG again. It compares both again before it swaps them: further rows
may differ as declared, none otherwise.

`verify` checks the served rows after the swap. If it fails, `undo` serves the old definition again and fails
too; its log says if that is impossible because the old definition's driver is stopped. If the swap was not made,
`undo` withdraws the proposal, so that a task which is still running cannot make it. `finish` only makes the run
fail if any task failed. Rejecting the proposal skips the remaining tasks. A task that was killed is retried and never
swaps twice. Keep both drivers running, so that `cutover swap <old> --back --why ...` works at any time. If wrong rows
are served: docs/runbooks/RetirementRegression.md.
"""

from datetime import timedelta

from change_dag import make_change_dag
from dag_parts import pipelines

for pipeline in pipelines():
    if pipeline.change is not None:
        build_dag = make_change_dag(
            pipeline.name,
            name="swap",
            module="swap_tasks",
            question=f"Serve {pipeline.name}?",
            doc=__doc__,
            task_docs={
                "propose": "Compares both at one cut; fails on differences that the note does not declare.",
                "apply": "Serves the new definition if the approval is still valid.",
                "verify": "Publishes and reads the rows that are served under the old name, and evaluates the checks.",
                "undo": "Serves the old definition again and fails, or withdraws the proposal.",
            },
            approval_timeout=timedelta(days=1),  # the pin of the compared cut lasts as long
        )
        build_dag()  # here: Airflow shows the calling file as the source of the DAG
