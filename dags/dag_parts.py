"""What several DAGs are made of: the asset between them, how they run and are tried again, tasks that some share."""

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import Asset, Param


def batch_asset(pipeline: str) -> Asset:
    """Return the asset that `<pipeline>_batch` updates and `<pipeline>_reconcile` waits for.

    The event's `extra` holds what the run did: `epoch` (the cut's number), `from` and `to` (the range that was asked
    for, ISO 8601 in UTC, null for "all that was dirty"), `run_id` and `batch_version`.
    """
    return Asset(name=f"{pipeline}_batch", uri=f"cutover://{pipeline}/batch", group="cutover")


def make_settings(doc: str | None, *, retry_delay: timedelta, timeout: timedelta, retries: int = 1) -> dict[str, Any]:
    """Return settings of a DAG: one run at a time, nothing made up for, unpaused.

    Args:
        doc: The DAG file's own text.
        retry_delay: Before a task is tried again.
        timeout: Of a task.
        retries: Of a task, for what nobody expected; a refusal is not tried again.
    """
    return {
        "catchup": False,
        "max_active_runs": 1,
        "is_paused_upon_creation": False,
        "doc_md": doc,
        "default_args": {
            "owner": "cutover",
            "retries": retries,
            "retry_delay": retry_delay,
            "execution_timeout": timeout,
        },
    }


def ask_person(subject: str, *, evidence: str, within: timedelta, kept_with: str) -> ApprovalOperator:
    """Return the task `approve`, which shows what a task before it found and waits for a person's word and reason.

    Args:
        subject: The question.
        evidence: Id of the task whose result has it as `text`, in Markdown.
        within: How long it waits; who did not answer by then is asked once more.
        kept_with: What the reason is kept with.
    """
    return ApprovalOperator(
        task_id="approve",
        subject=subject,
        body=f"{{{{ ti.xcom_pull(task_ids='{evidence}')['text'] }}}}",
        params={"why": Param("", type="string", maxLength=500, description=f"Kept with the {kept_with}.")},
        response_timeout=within,  # with retries: an answer in the second of the question fails a try in Airflow 3.3.2
        doc_md="Waits for a person: Required Actions of this run.",
    )


def start_batch(pipeline: str) -> TriggerDagRunOperator:
    """Return the task `start_batch`, after which `<pipeline>_batch` runs."""
    return TriggerDagRunOperator(
        task_id="start_batch",
        trigger_dag_id=f"{pipeline}_batch",
        doc_md="Starts the batch path, which catches up from the log.",
    )
