"""What the task of the batch DAG does: stage, range, one run in a child process, and what it announces."""

import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from run_range import RunRange, requested_range
from task_errors import failing_plainly

from cutover.definition import catalogue
from cutover.lake.stages import Stage, current_stage
from cutover.settings import load_settings
from infra.child import ChildEnd, run_command

log = logging.getLogger("airflow.task")
REFUSED = 2  # exit code of the command line


def recompute_run(pipeline: str, context: Mapping[str, Any]) -> dict[str, Any]:
    """Recompute the batch table of a pipeline in a child process.

    Returns:
        `epoch` (of the cut), `from` and `to` (as asked for; None: all that was dirty), `run_id`, `batch_version`.

    Raises:
        AirflowSkipException: The pipeline is in KAPPA.
        AirflowFailException: Bad parameters, a failed contract, or another failure that a person must act on.
        RuntimeError: The child ended in a way that nobody expected.
    """
    with failing_plainly():
        settings = load_settings()
        if current_stage(settings, catalogue.get(settings, pipeline)) is Stage.KAPPA:
            msg = f"{pipeline} is in KAPPA: the stream serves alone, there is no batch to compute."
            raise AirflowSkipException(msg)
        run = context["dag_run"]
        wanted = requested_range(context["params"], run_type=str(run.run_type), logical_date=run.logical_date)
    end = run_command(batch_arguments(pipeline, wanted), on_line=log.info)
    return announced(pipeline, wanted, end)


def batch_arguments(pipeline: str, wanted: RunRange) -> list[str]:
    """Return the words of the command that computes a range."""
    bounds = (("--from", wanted.start), ("--to", wanted.end))
    return ["batch", pipeline, "--json", *(word for name, at in bounds if at for word in (name, at.isoformat()))]


def announced(pipeline: str, wanted: RunRange, end: ChildEnd) -> dict[str, Any]:
    """Return what the asset event says of a run that ended well.

    Raises:
        AirflowFailException: It was refused; the message is the command's own.
        RuntimeError: It died.
    """
    if end.exit_code == REFUSED:
        raise AirflowFailException(end.message)
    if end.exit_code != 0 or not isinstance(end.value, dict):
        msg = f"Batch run of {pipeline} ended with exit code {end.exit_code}:\n{end.message}"
        raise RuntimeError(msg)
    kept = {name: end.value.get(name) for name in ("epoch", "run_id", "batch_version")}
    return {**kept, "from": _iso(wanted.start), "to": _iso(wanted.end)}


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
