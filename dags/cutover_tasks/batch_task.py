"""Task of the batch DAG: check stage and range, run batch in a child process, and make the asset event."""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from cutover.definition.loading import catalogue
from cutover.definition.model.policy import Stage
from cutover.infra.processes.child import ChildEnd, run_child
from cutover.lake.control.served import current_stage
from cutover.pipeline_lake import PipelineLake
from cutover.settings import load_settings
from cutover_tasks.run_range import RunRange, requested_range
from cutover_tasks.task_parts import fail_without_retries

log = logging.getLogger("airflow.task")
INVALID = 2  # exit code of the command line: a person has to act
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def recompute_run(pipeline: str, context: Mapping[str, Any]) -> dict[str, Any]:
    """Recompute the batch table of a pipeline in a child process.

    Returns:
        `epoch` (of the cut), `from` and `to` (requested range; None: all dirty windows), `run_id`, `batch_version`.

    Raises:
        AirflowSkipException: The pipeline is in KAPPA, the range is empty, or no window of it could be computed.
        AirflowFailException: Invalid parameters, a range for sessions, a failed contract, or another error that a
            person has to resolve.
        RuntimeError: The child process ended unexpectedly.
    """
    with fail_without_retries():
        settings = load_settings()
        definition = catalogue.get(settings, pipeline)
        if current_stage(PipelineLake(settings, definition)) is Stage.KAPPA:
            msg = f"{pipeline} is in KAPPA: the stream serves alone, there is no batch to compute."
            raise AirflowSkipException(msg)
        run = context["dag_run"]
        run_range = requested_range(
            context["params"], definition.window, run_type=str(run.run_type), logical_date=run.logical_date
        )
    skip_empty(pipeline, run_range)
    end = run_child(batch_arguments(pipeline, run_range), on_line=log.info)
    return make_asset_extra(pipeline, end)


def skip_empty(pipeline: str, run_range: RunRange) -> None:
    """Skip a day that does not exist in its time zone, such as 30 December 2011 in Samoa.

    Raises:
        AirflowSkipException: The range ends where it begins.
    """
    if run_range.start is not None and run_range.start == run_range.end:
        msg = f"Nothing was computed: the requested range of {pipeline} is empty, it begins and ends at "
        msg += f"{run_range.start.isoformat()}. Its time zone skips this day."
        raise AirflowSkipException(msg)


def batch_arguments(pipeline: str, run_range: RunRange) -> list[str]:
    """Build the arguments of the command that computes a range."""
    options = (("--from", run_range.start), ("--to", run_range.end))
    return ["batch", pipeline, "--json", *(word for flag, at in options if at for word in (flag, at.isoformat()))]


def make_asset_extra(pipeline: str, end: ChildEnd) -> dict[str, Any]:
    """Make the extra of the asset event from the output of a successful run.

    Raises:
        AirflowSkipException: No window of the range was computed: no event is sent, so nothing is compared.
        AirflowFailException: The command was rejected; the message is the command's.
        RuntimeError: The command failed unexpectedly.
    """
    if end.exit_code == INVALID:
        raise AirflowFailException(end.message)
    if end.exit_code != 0 or not isinstance(end.value, dict):
        msg = f"Batch run of {pipeline} ended with exit code {end.exit_code}:\n{end.message}"
        raise RuntimeError(msg)
    if end.value.get("nothing_computed"):
        raise AirflowSkipException(str(end.value["nothing_computed"]))
    fields = {name: end.value.get(name) for name in ("epoch", "run_id", "batch_version")}
    range_start, range_end = end.value.get("wanted") or (None, None)
    return {**fields, "from": _format_micros(range_start), "to": _format_micros(range_end)}


def _format_micros(micros: int | None) -> str | None:
    return None if micros is None else (_EPOCH + timedelta(microseconds=micros)).isoformat()
