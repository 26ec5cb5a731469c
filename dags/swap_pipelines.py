"""Serve this changed definition in place of the one that its change note names, after a person has approved it.

Only for definitions with `change=Change(of=...)`. First run `cutover replay <pipeline>` and trigger
`<pipeline>_stream`, then trigger this DAG manually. `compare_definitions` compares both definitions at their latest
common cut. It fails if they differ in anything that the note does not declare, or cannot be compared. Otherwise
`approve` shows the comparison under **Required Actions** of the run and waits for your decision and your reason.
`swap_definitions` rejects the approval, and names the change, if another version or definition is served meanwhile, or
a definition or its note changed. Then trigger the DAG again. It compares both again before it swaps them: further rows
may differ as declared, none otherwise.

`verify_swap` checks the served rows after the swap. If it fails, `swap_back` serves the old definition again and fails
too; its log says if that is impossible because the old definition's driver is stopped. If the swap was not made,
`swap_back` withdraws the proposal, so that a task which is still running cannot make it. `finish` only makes the run
fail if any task failed. Rejecting the proposal skips the remaining tasks. A task that was killed is retried and never
swaps twice. Keep both drivers running, so that `cutover swap <old> --back --why ...` works at any time. If wrong rows
are served: docs/runbooks/RetirementRegression.md.
"""

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import dag, get_current_context, task
from dag_parts import make_approval, make_settings
from definitions import pipelines

from cutover.definition.model.pipeline import Pipeline

APPROVAL_TIMEOUT = timedelta(days=1)  # the pin of the compared cut lasts as long

SETTINGS = make_settings(__doc__, retry_delay=timedelta(seconds=30), timeout=timedelta(hours=2))


def swap_dag(pipeline: Pipeline) -> None:
    """Build the DAG that serves one changed definition, with a person's approval."""

    @dag(dag_id=f"{pipeline.name}_swap", schedule=None, tags=["cutover", "swap", pipeline.name], **SETTINGS)
    def swap() -> None:
        @task(doc_md="Compares both at one cut; fails on differences that the note does not declare.")
        def compare_definitions() -> dict[str, Any]:
            from cutover_tasks.moves.swap_task import compare  # noqa: PLC0415 -- the task's work, loaded when it runs

            return compare(pipeline.name, str(get_current_context()["dag_run"].run_id))

        @task(doc_md="Serves the new definition if the approval is still valid.")
        def swap_definitions(proposal: dict[str, Any], answer: dict[str, Any]) -> str:
            from cutover_tasks.moves.swap_task import swap_approved  # noqa: PLC0415 -- the task's work, loaded when it runs

            return swap_approved(pipeline.name, proposal, answer)

        @task(doc_md="Publishes and reads the rows that are served under the old name, and evaluates the checks.")
        def verify_swap(name: str) -> str:
            from cutover_tasks.moves.swap_task import verify_served  # noqa: PLC0415 -- the task's work, loaded when it runs

            return verify_served(pipeline.name, name)

        @task(trigger_rule="one_failed", doc_md="Serves the old definition again and fails, or withdraws the proposal.")
        def swap_back(proposal: dict[str, Any] | None) -> None:
            from cutover_tasks.moves.swap_task import swap_back_unverified  # noqa: PLC0415 -- the task's work, loaded when it runs

            swap_back_unverified(pipeline.name, proposal)

        proposal = compare_definitions()
        approve = make_approval(
            f"Serve {pipeline.name}?", evidence="compare_definitions", timeout=APPROVAL_TIMEOUT, recorded_with="swap"
        )
        proposal >> approve
        finish = EmptyOperator(task_id="finish", doc_md="Makes the run fail if a task failed.")
        verify_swap(swap_definitions(proposal, approve.output)) >> [swap_back(proposal), finish]

    swap()


for definition in pipelines():
    if definition.change is not None:
        swap_dag(definition)
