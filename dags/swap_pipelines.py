"""Let this changed definition be served in place of the one that its change note names, once a person approved it here.

By hand alone, and only for definitions with `change=Change(of=...)`. Fill it first: `cutover replay <pipeline>`, then
start `<pipeline>_stream`, which reads on. `compare_definitions` compares both at the newest cut that both have, and is
red if they differ in anything that the note does not declare, or cannot be compared. Else `approve` waits for you
(**Required Actions** of the run): it shows what was found, and takes a reason. If another version or definition serves
by then, or a definition or its note changed, `swap_definitions` is refused and says what changed; start the DAG again.
It compares once more before readers get the new rows: more of them may differ as declared by then, none otherwise.

`verify_swap` looks at what is served then, and judges the checks. If it is red, `swap_back` lets the old definition
serve again and is red itself; its log says if that one cannot, since its driver stands still. Where no swap was made it
withdraws what was proposed, so that no task which still runs can make it. `finish` does nothing: the run is red
wherever a task was. Reject skips the rest. A killed task is run again: a swap that was made is not made twice.
Keep both drivers at work: back at any time by `cutover swap <old> --back --why ...`. Where rows that are served are
wrong: docs/runbooks/RetirementRegression.md.
"""

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import dag, get_current_context, task
from dag_parts import ask_person, make_settings
from definitions import pipelines

from cutover.definition.model.pipeline import Pipeline

ANSWER_WITHIN = timedelta(days=1)  # the cut that was compared is held for as long

SETTINGS = make_settings(__doc__, retry_delay=timedelta(seconds=30), timeout=timedelta(hours=2))


def swap_dag(pipeline: Pipeline) -> None:
    """Make the DAG that lets one changed definition serve, with a person's approval."""

    @dag(dag_id=f"{pipeline.name}_swap", schedule=None, tags=["cutover", "swap", pipeline.name], **SETTINGS)
    def swap() -> None:
        @task(doc_md="Compares both at one cut; red if they differ in what the note does not declare.")
        def compare_definitions() -> dict[str, Any]:
            from cutover_tasks.moves.swap_task import compare  # noqa: PLC0415 -- the task's work, loaded when it runs

            return compare(pipeline.name, str(get_current_context()["dag_run"].run_id))

        @task(doc_md="Lets the new definition serve, if what was approved still stands.")
        def swap_definitions(proposal: dict[str, Any], answer: dict[str, Any]) -> str:
            from cutover_tasks.moves.swap_task import swap_approved  # noqa: PLC0415 -- the task's work, loaded when it runs

            return swap_approved(pipeline.name, proposal, answer)

        @task(doc_md="Publishes and reads what serves the old name now, and judges the checks.")
        def verify_swap(name: str) -> str:
            from cutover_tasks.moves.swap_task import verify_served  # noqa: PLC0415 -- the task's work, loaded when it runs

            return verify_served(pipeline.name, name)

        @task(
            trigger_rule="one_failed",
            doc_md="Lets the old one serve again and is red, or withdraws the proposal.",
        )
        def swap_back(proposal: dict[str, Any] | None) -> None:
            from cutover_tasks.moves.swap_task import put_back  # noqa: PLC0415 -- the task's work, loaded when it runs

            put_back(pipeline.name, proposal)

        proposal = compare_definitions()
        approve = ask_person(
            f"Let {pipeline.name} serve?", evidence="compare_definitions", within=ANSWER_WITHIN, kept_with="swap"
        )
        proposal >> approve
        finish = EmptyOperator(task_id="finish", doc_md="Red where a task before it was: Airflow asks the last ones.")
        verify_swap(swap_definitions(proposal, approve.output)) >> [swap_back(proposal), finish]

    swap()


for definition in pipelines():
    if definition.change is not None:
        swap_dag(definition)
