"""Parts that several DAGs share: the asset between batch and reconcile, DAG settings, approval and batch trigger."""

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import Asset, Param


def batch_asset(pipeline: str) -> Asset:
    """Return the asset that `<pipeline>_batch` updates and that triggers `<pipeline>_reconcile`.

    The event's `extra` describes the batch run: `epoch` (number of the cut), `from` and `to` (requested range,
    ISO 8601 in UTC; null for all dirty windows), `run_id` and `batch_version`.
    """
    return Asset(name=f"{pipeline}_batch", uri=f"cutover://{pipeline}/batch", group="cutover")


def make_settings(doc: str | None, *, retry_delay: timedelta, timeout: timedelta, retries: int = 1) -> dict[str, Any]:
    """Make the settings of a DAG: one active run, no catchup, unpaused on creation.

    Args:
        doc: Docstring of the DAG file, shown in Airflow.
        retry_delay: Delay before a task is retried.
        timeout: Execution timeout of a task.
        retries: Retries of a task after an unexpected error; rejected input is never retried.
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


def make_approval(subject: str, *, evidence: str, timeout: timedelta, recorded_with: str) -> ApprovalOperator:
    """Make the task `approve`, which shows the evidence of an earlier task and waits for a decision and its reason.

    Args:
        subject: Question that the person answers.
        evidence: Id of the task whose result holds the evidence as `text`, in Markdown.
        timeout: Time to respond; the request is sent once more if no one responds in time.
        recorded_with: Record that stores the reason: `move` or `swap`.
    """
    return ApprovalOperator(
        task_id="approve",
        subject=subject,
        body=f"{{{{ ti.xcom_pull(task_ids='{evidence}')['text'] }}}}",
        params={"why": Param("", type="string", maxLength=500, description=f"Recorded with the {recorded_with}.")},
        response_timeout=timeout,  # with retries: in Airflow 3.3.2 an immediate answer fails the first try
        doc_md="Waits for a person's decision: Required Actions of this run.",
    )


def start_batch(pipeline: str) -> TriggerDagRunOperator:
    """Make the task `start_batch`, which triggers `<pipeline>_batch`."""
    return TriggerDagRunOperator(
        task_id="start_batch",
        trigger_dag_id=f"{pipeline}_batch",
        doc_md="Triggers the batch path, which catches up from the log.",
    )
