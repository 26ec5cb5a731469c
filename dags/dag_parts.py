"""Parts that DAG files share: the definitions from which they build DAGs, assets, settings, and the batch trigger.

A file of a definition that does not load removes only the DAGs of its pipelines.
"""

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import Asset

from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.driver_state import list_running_drivers
from cutover.errors import DefinitionError
from cutover.infra.airflow import instance
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings, load_settings


def pipelines() -> tuple[Pipeline, ...]:
    """Load the pipelines of all valid files, and recorded definitions in place of files that no longer load, by name.

    Samples other than the demonstration's are left out until they are turned on.
    """
    settings = load_settings()
    current = catalogue.read_catalogue(settings)
    definitions = _list_recorded(settings, current) | current.pipelines
    ordered = (definitions[name] for name in sorted(definitions))
    return tuple(pipeline for pipeline in ordered if not instance.is_sample_off(PipelineLake(settings, pipeline)))


def _list_recorded(settings: Settings, current: catalogue.Catalogue) -> dict[str, Pipeline]:
    """List recorded definitions whose files do not load, so that their streams can still be stopped in Airflow."""
    if not current.problems and set(list_running_drivers(settings)) <= set(current.pipelines):
        return {}
    from cutover.lake import recorded_definitions  # noqa: PLC0415 -- brings pyarrow, which no DAG file needs otherwise

    return recorded_definitions.list_shown(settings, current)


def broken_definitions() -> tuple[DefinitionError, ...]:
    """Return the errors of all files that do not load; each message names its file."""
    return catalogue.scan(load_settings())[1]


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
