"""Parts that several DAGs share: the assets of batch and reconcile, settings, and the batch trigger."""

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import Asset


def batch_asset(pipeline: str) -> Asset:
    """Return the asset that `<pipeline>_batch` updates and that triggers `<pipeline>_reconcile`.

    The event's `extra` describes the batch run: `epoch` (number of the cut), `from` and `to` (requested range,
    ISO 8601 in UTC; null for all dirty windows), `run_id` and `batch_version`.
    """
    return Asset(name=f"{pipeline}_batch", uri=f"cutover://{pipeline}/batch", group="cutover")


def comparison_asset(pipeline: str) -> Asset:
    """Return the asset that `<pipeline>_reconcile` updates if a verdict is acceptable; other DAGs may wait for it.

    The event's `extra` has `verdict`, `exit_code`, `sentence` and `report`.
    """
    return Asset(name=f"{pipeline}_comparison", uri=f"cutover://{pipeline}/comparison", group="cutover")


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


def start_batch(pipeline: str) -> TriggerDagRunOperator:
    """Make the task `start_batch`, which triggers `<pipeline>_batch`."""
    return TriggerDagRunOperator(
        task_id="start_batch",
        trigger_dag_id=f"{pipeline}_batch",
        doc_md="Triggers the batch path, which catches up from the log.",
    )
