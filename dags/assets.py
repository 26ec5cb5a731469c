"""Assets that tie the DAGs of one pipeline together: `<pipeline>_batch` changes when the batch path published a run."""

from airflow.sdk import Asset


def batch_asset(pipeline: str) -> Asset:
    """Return the asset that `<pipeline>_batch` updates and `<pipeline>_reconcile` waits for.

    The event's `extra` holds what the run did: `epoch` (the cut's number), `from` and `to` (the range that was asked
    for, ISO 8601 in UTC, null for "all that was dirty"), `run_id` and `batch_version`.
    """
    return Asset(name=f"{pipeline}_batch", uri=f"cutover://{pipeline}/batch", group="cutover")
