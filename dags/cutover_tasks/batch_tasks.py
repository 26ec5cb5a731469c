"""Tasks of the batch and repair DAGs: each runs a command of the batch path in a child process.

The batch DAG checks stage and range, and makes the asset event. The repair DAG lists the requested windows, previews
each of them, and publishes those that differ.
"""

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from cutover.counts import count_noun
from cutover.definition.loading import catalogue
from cutover.definition.model.policy import Stage
from cutover.definition.windows.window_fn import parse_range_end
from cutover.infra.processes.family import ChildEnd, run_child
from cutover.lake.control.served import current_stage
from cutover.pipeline_lake import PipelineLake
from cutover.settings import load_settings
from cutover_tasks.task_parts import RunRange, fail_without_retries, requested_range

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


DIRTY = ""
"""In place of a window's start: all dirty windows."""
_DIFFERS, _INVALID = 1, 2  # exit codes of the command line


def collect_starts(pipeline: str, params: Mapping[str, Any]) -> list[str]:
    """List the start of each requested window, in UTC, ascending and distinct; `[DIRTY]` if none was requested.

    Raises:
        AirflowFailException: A start is not a valid time.
    """
    with fail_without_retries():
        window = catalogue.get(load_settings(), pipeline).window
        windows = [str(text).strip() for text in params.get("windows") or () if str(text).strip()]
        return sorted({parse_range_end(text, window, of="Window").isoformat() for text in windows}) or [DIRTY]


def repair_arguments(pipeline: str, windows: Sequence[str]) -> list[str]:
    """Build the arguments of the command that previews windows."""
    if DIRTY in windows:
        return ["repair", pipeline, "--dirty", "--json"]
    return ["repair", pipeline, *(word for start in windows for word in ("--window", start)), "--json"]


def preview_window(pipeline: str, window: str) -> dict[str, Any]:
    """Recompute a window in a child process and log what would change.

    Returns:
        `window`, `would_change` (rows), `counts`, `changes` (the first of them), `id` (of the draft).

    Raises:
        AirflowFailException: The command was rejected; the message is the command's.
        RuntimeError: The child process ended unexpectedly.
    """
    draft = parse_repair(pipeline, run_child(repair_arguments(pipeline, [window]), on_line=log.info))
    fields = {name: draft.get(name) for name in ("id", "would_change", "counts", "changes")}
    log.info("%s: %s rows would change", window or "all dirty windows", fields["would_change"])
    return {"window": window, **fields}


def parse_repair(pipeline: str, end: ChildEnd) -> dict[str, Any]:
    """Return the repair that the command printed.

    Raises:
        AirflowFailException: The command was rejected.
        RuntimeError: The command failed unexpectedly, or printed nothing.
    """
    if end.exit_code == _INVALID:
        raise AirflowFailException(end.message)
    if end.exit_code not in {0, _DIFFERS} or not isinstance(end.value, dict):
        msg = f"Repair of {pipeline} ended with exit code {end.exit_code}:\n{end.message}"
        raise RuntimeError(msg)
    return end.value


def publish_windows(pipeline: str, previews: Sequence[Mapping[str, Any]], params: Mapping[str, Any]) -> dict[str, Any]:
    """Publish the windows that differ, in one commit.

    Returns:
        Extra of the asset event: `epoch`, `run_id`, `batch_version`, `from` and `to` (None).

    Raises:
        AirflowSkipException: A dry run, or nothing would change.
        AirflowFailException: The command was rejected; nothing was published.
    """
    differing = [str(preview["window"]) for preview in previews if preview["would_change"]]
    rows = sum(int(preview["would_change"] or 0) for preview in previews)
    if not differing:
        msg = f"Nothing would change in {count_noun(len(previews), 'window')} of {pipeline}."
        raise AirflowSkipException(msg)
    if not params.get("publish"):
        msg = (
            f"Dry run: {rows} rows in {count_noun(len(differing), 'window')} of {pipeline} would "
            f"change. Set `publish` to apply this."
        )
        raise AirflowSkipException(msg)
    reason_arguments = ["--why", str(params["why"])] if params.get("why") else []
    arguments = [*repair_arguments(pipeline, differing), "--publish", *reason_arguments]
    run = parse_repair(pipeline, run_child(arguments, on_line=log.info)).get("run")
    if not isinstance(run, dict):
        msg = f"{count_noun(len(differing), 'window')} of {pipeline} no longer differ: nothing was published."
        raise AirflowSkipException(msg)
    log.info("published %s: %s rows in %s windows", run["run_id"], rows, len(differing))
    return {name: run.get(name) for name in ("epoch", "run_id", "batch_version")} | {"from": None, "to": None}
