"""What the task of the batch DAG does: stage, range, one run in a child process, and what it announces."""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from cutover.definition.loading import catalogue
from cutover.infra.processes.child import ChildEnd, run_command
from cutover.lake.control.stages import Stage, current_stage
from cutover.settings import load_settings
from cutover_tasks.run_range import RunRange, requested_range
from cutover_tasks.task_errors import fail_without_retries

log = logging.getLogger("airflow.task")
REFUSED = 2  # exit code of the command line
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def recompute_run(pipeline: str, context: Mapping[str, Any]) -> dict[str, Any]:
    """Recompute the batch table of a pipeline in a child process.

    Returns:
        `epoch` (of the cut), `from` and `to` (of the windows that were asked for; None: all that was dirty), `run_id`,
        `batch_version`.

    Raises:
        AirflowSkipException: The pipeline is in KAPPA, the range is empty, or no window of it could be computed.
        AirflowFailException: Bad parameters, a range of sessions, a failed contract, or what else a person must act on.
        RuntimeError: The child ended in a way that nobody expected.
    """
    with fail_without_retries():
        settings = load_settings()
        definition = catalogue.get(settings, pipeline)
        if current_stage(settings, definition) is Stage.KAPPA:
            msg = f"{pipeline} is in KAPPA: the stream serves alone, there is no batch to compute."
            raise AirflowSkipException(msg)
        run = context["dag_run"]
        run_range = requested_range(
            context["params"], definition.window, run_type=str(run.run_type), logical_date=run.logical_date
        )
    refuse_empty(pipeline, run_range)
    end = run_command(batch_arguments(pipeline, run_range), on_line=log.info)
    return make_event(pipeline, end)


def refuse_empty(pipeline: str, run_range: RunRange) -> None:
    """Skip a day that its zone has left out, as Samoa has 30 December 2011.

    Raises:
        AirflowSkipException: The range ends where it begins.
    """
    if run_range.start is not None and run_range.start == run_range.end:
        msg = f"Nothing was computed: the range that was asked for of {pipeline} has no moment, it begins and ends at "
        msg += f"{run_range.start.isoformat()}. A zone leaves out a day where its date jumps."
        raise AirflowSkipException(msg)


def batch_arguments(pipeline: str, run_range: RunRange) -> list[str]:
    """Return the words of the command that computes a range."""
    bounds = (("--from", run_range.start), ("--to", run_range.end))
    return ["batch", pipeline, "--json", *(word for name, at in bounds if at for word in (name, at.isoformat()))]


def make_event(pipeline: str, end: ChildEnd) -> dict[str, Any]:
    """Return what the asset event says of a run that ended well.

    Raises:
        AirflowSkipException: It computed no window of its range: nothing is to be compared, and no event is sent.
        AirflowFailException: It was refused; the message is the command's own.
        RuntimeError: It died.
    """
    if end.exit_code == REFUSED:
        raise AirflowFailException(end.message)
    if end.exit_code != 0 or not isinstance(end.value, dict):
        msg = f"Batch run of {pipeline} ended with exit code {end.exit_code}:\n{end.message}"
        raise RuntimeError(msg)
    if end.value.get("nothing_computed"):
        raise AirflowSkipException(str(end.value["nothing_computed"]))
    fields = {name: end.value.get(name) for name in ("epoch", "run_id", "batch_version")}
    start, stop = end.value.get("wanted") or (None, None)
    return {**fields, "from": _iso(start), "to": _iso(stop)}


def _iso(micros: int | None) -> str | None:
    return None if micros is None else (_EPOCH + timedelta(microseconds=micros)).isoformat()
