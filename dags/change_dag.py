"""DAG of a change that a person approves, whatever its kind: propose, approve, apply, verify, undo."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from importlib import import_module
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Param, dag, get_current_context, task
from dag_parts import make_settings


def make_change_dag(  # noqa: PLR0913 -- what differs between two kinds of changes
    pipeline: str,
    *,
    name: str,
    module: str,
    question: str,
    doc: str | None,
    task_docs: Mapping[str, str],
    approval_timeout: timedelta,
    pool: str = "default_pool",
) -> Callable[[], Any]:
    """Return the function that builds the DAG `<pipeline>_<name>` of a change that a person approves.

    `propose` fails unless the change may be made; `approve` shows its evidence and waits for a person; `apply` makes
    the change if the approval is still valid; `verify` checks what readers get; `undo` reverts a change that could not
    be verified, and withdraws one that was not made; `finish` makes the run fail if a task failed.

    Args:
        pipeline: Name of the pipeline.
        name: End of the DAG's id.
        module: Module of `cutover_tasks.moves` with the functions `propose`, `apply`, `verify` and `undo`; it is
            imported where a task runs.
        question: Question that the person answers.
        doc: Docstring of the DAG file, shown in Airflow.
        task_docs: Description of each of the four tasks.
        approval_timeout: Time to respond; the request is sent once more if no one responds in time.
        pool: Pool in which `apply` runs.

    Returns:
        To be called by the DAG file, which Airflow then shows and loads as the source of the DAG.
    """
    settings = make_settings(doc, retry_delay=timedelta(seconds=30), timeout=timedelta(hours=2))
    tags = list(dict.fromkeys(("cutover", name, pipeline)))
    path = f"cutover_tasks.moves.{module}"

    @dag(dag_id=f"{pipeline}_{name}", schedule=None, tags=tags, **settings)
    def change() -> None:
        @task(doc_md=task_docs["propose"])
        def propose() -> dict[str, Any]:
            run_id = str(get_current_context()["dag_run"].run_id)
            return dict(import_module(path).propose(pipeline, run_id))

        @task(pool=pool, doc_md=task_docs["apply"])
        def apply(proposal: dict[str, Any], answer: dict[str, Any]) -> str:
            return str(import_module(path).apply(pipeline, proposal, answer))

        @task(doc_md=task_docs["verify"])
        def verify(outcome: str) -> str:
            return str(import_module(path).verify(pipeline, outcome))

        @task(trigger_rule="one_failed", doc_md=task_docs["undo"])
        def undo(proposal: dict[str, Any] | None) -> None:
            import_module(path).undo(pipeline, proposal)

        proposal = propose()
        approve = _make_approval(question, timeout=approval_timeout)
        proposal >> approve
        finish = EmptyOperator(task_id="finish", doc_md="Makes the run fail if a task failed.")
        verify(apply(proposal, approve.output)) >> [undo(proposal), finish]

    return change  # type: ignore[no-any-return]  # Airflow is not followed


def _make_approval(question: str, *, timeout: timedelta) -> ApprovalOperator:
    return ApprovalOperator(
        task_id="approve",
        subject=question,
        body="{{ ti.xcom_pull(task_ids='propose')['text'] }}",
        params={"why": Param("", type="string", maxLength=500, description="Reason, recorded with the change.")},
        response_timeout=timeout,  # with retries: in Airflow 3.3.2 an immediate answer fails the first try
        doc_md="Waits for a person's decision: Required Actions of this run.",
    )
