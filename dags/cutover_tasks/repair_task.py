"""Tasks of the repair DAG: list the requested windows, preview each of them, and publish those that differ."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from cutover.counts import count_noun
from cutover.definition.loading import catalogue
from cutover.definition.model.ranges import parse_range_end
from cutover.infra.processes.child import ChildEnd, run_child
from cutover.settings import load_settings
from cutover_tasks.task_parts import fail_without_retries

log = logging.getLogger("airflow.task")
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
